"""Environment variables that begin as our options do and are none.

Kubernetes tells each pod of the Services beside it, of one called ``signet-metrics`` by the variable
``SIGNET_METRICS_PORT=tcp://10.96.0.7:8002``. That is the name of an option, for which it is no value.
"""

import re
from collections.abc import Collection, MutableMapping
from typing import Final

PREFIX: Final = "SIGNET_"

_CLIENTS: Final = frozenset(
    f"{PREFIX}{name}" for name in ("URL", "TOKEN", "ROOT_CERT", "CLIENT_CERT", "CLIENT_KEY", "BENCHMARK_PACKAGES")
)
"""What the commands that call a server read."""

_TOLD_BY_KUBERNETES: Final = re.compile(
    rf"{PREFIX}(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
_LINK: Final = re.compile(r"(tcp|udp|sctp)://\S*")


def clean(environment: MutableMapping[str, str], options: Collection[str]) -> list[str]:
    """Take out the variables that only look like options; return a warning for each that is none.

    Args:
        environment: of the process, changed in place.
        options: the names of all options, such as ``grpc_port``.
    """
    warnings = []
    known = {f"{PREFIX}{name.upper()}" for name in options}
    for name in sorted(name for name in environment if name.startswith(PREFIX)):
        if name in known:
            if _TOLD_BY_KUBERNETES.fullmatch(name) and _LINK.fullmatch(environment[name]):
                service = name.removesuffix("_PORT").lower().replace("_", "-")
                warnings.append(
                    f"{name}={environment.pop(name)} tells of a Service {service} and is ignored;"
                    " enableServiceLinks: false in the pod keeps such variables out"
                )
        elif name not in _CLIENTS and not _TOLD_BY_KUBERNETES.fullmatch(name):
            warnings.append(f"{name} is no option of the server and is ignored")
    return warnings
