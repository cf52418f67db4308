"""The fields of other projects' resources that the manifests use, after the published definitions.

Only these fields are known here: one that is misspelt or of another type is found, one that a later version of the
other project drops is not. Last compared with KEDA 2.16, the Prometheus operator 0.80 and KServe's sources of 2026.
"""

_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
# Checked by Kubernetes' own schema, as a part of a pod.
CONTAINER = {"type": "object", "required": ["name"]}


def _fields(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _list(items):
    return {"type": "array", "items": items, "minItems": 1}


_SELECTOR = _fields(["matchLabels"], matchLabels=_TEXTS)
_SCRAPED = _list(_fields(["port"], port=_TEXT, path=_TEXT, interval={"type": "string", "pattern": r"^\d+s$"}))
_MODEL = _fields(
    ["modelFormat"],
    modelFormat=_fields(["name"], name=_TEXT, version=_TEXT),
    protocolVersion={"enum": ["v1", "v2", "grpc-v1", "grpc-v2"]},
    runtime=_TEXT,
    storageUri={"type": "string", "pattern": r"^[a-z0-9]+://"},
    image=_TEXT,
    # Checked by Kubernetes' own schema, too, as parts of a container.
    env={"type": "array"},
    resources={"type": "object"},
)

SPECS = {
    ("serving.kserve.io/v1alpha1", "ClusterServingRuntime"): _fields(
        ["containers"],
        annotations=_TEXTS,
        supportedModelFormats=_list(
            _fields(["name"], name=_TEXT, version=_TEXT, autoSelect={"type": "boolean"}, priority=_NUMBER)
        ),
        protocolVersions=_list({"enum": ["v1", "v2", "grpc-v1", "grpc-v2"]}),
        containers=_list(CONTAINER),
        volumes=_list({"type": "object", "required": ["name"]}),
    ),
    ("serving.kserve.io/v1beta1", "InferenceService"): _fields(
        ["predictor"],
        predictor=_fields(
            minReplicas=_NUMBER,
            maxReplicas=_NUMBER,
            canaryTrafficPercent={"type": "integer", "minimum": 0, "maximum": 100},
            model=_MODEL,
        ),
        transformer=_fields(containers=_list(CONTAINER)),
    ),
    ("monitoring.coreos.com/v1", "ServiceMonitor"): _fields(
        ["selector", "endpoints"], selector=_SELECTOR, endpoints=_SCRAPED
    ),
    ("monitoring.coreos.com/v1", "PodMonitor"): _fields(
        ["selector", "podMetricsEndpoints"], selector=_SELECTOR, podMetricsEndpoints=_SCRAPED
    ),
    ("keda.sh/v1alpha1", "ScaledObject"): _fields(
        ["scaleTargetRef", "triggers"],
        scaleTargetRef=_fields(["name"], name=_TEXT),
        minReplicaCount=_NUMBER,
        maxReplicaCount=_NUMBER,
        pollingInterval=_NUMBER,
        cooldownPeriod=_NUMBER,
        triggers=_list(
            _fields(
                ["type", "metadata"],
                type={"const": "prometheus"},
                metricType={"enum": ["AverageValue", "Value"]},
                metadata=_fields(
                    ["serverAddress", "query", "threshold"], serverAddress=_TEXT, query=_TEXT, threshold=_TEXT
                ),
            )
        ),
    ),
}
