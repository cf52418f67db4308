"""Who may call what: every method has a group, and each group its rule."""

import pytest

from protos import grpc_service_pb2
from service.access import GROUPS, SERVICE, Access, RestrictionRule, TokenRule
from service.errors import LoadError, PermissionDeniedError, UnauthenticatedError, UnavailableError
from service.tokens import Tokens

INFER, LOAD = f"{SERVICE}ModelInfer", f"{SERVICE}RepositoryModelLoad"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
HEALTH = [
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    *(SERVICE + each for each in GROUPS["health"]),
]
ADMIN = [
    SERVICE + each for group in ("shared-memory", "model-repository", "trace", "logging") for each in GROUPS[group]
]


def bearer(token):
    return [("user-agent", "x"), ("authorization", f"Bearer {token}")]


@pytest.fixture
def rule(tmp_path):
    (tmp_path / "tokens").write_text("user\n")
    (tmp_path / "admins").write_text("admin\n")

    def make(*, tokens, admins):
        return TokenRule(
            Tokens(tmp_path / "tokens") if tokens else None, Tokens(tmp_path / "admins") if admins else None
        )

    return make


def outcome(rule, method, metadata=()):
    refusal = rule.refusal(method, metadata)
    return None if refusal is None else type(refusal)


def test_every_method_is_in_one_group():
    (service,) = grpc_service_pb2.DESCRIPTOR.services_by_name.values()
    grouped = [method for methods in GROUPS.values() for method in methods]

    assert sorted(grouped) == sorted(method.name for method in service.methods)


def test_without_rules_nothing_is_asked():
    assert not Access()
    assert Access().refusal(INFER, []) is None


@pytest.mark.parametrize("method", HEALTH)
def test_probes_of_health_need_no_token(rule, method):
    assert outcome(rule(tokens=True, admins=True), method) is None


@pytest.mark.parametrize("method", [INFER, REFLECTION, "/no.Such/Method", *ADMIN])
@pytest.mark.parametrize(
    "metadata",
    [
        [],
        bearer("wrong"),
        bearer(""),
        [("authorization", "user")],
        [("authorization", "Basic user")],
        [("authorization", b"Bearer user")],
        [("x-authorization", "Bearer user")],
    ],
)
def test_all_other_calls_need_one(rule, method, metadata):
    assert outcome(rule(tokens=True, admins=False), method, metadata) is UnauthenticatedError


@pytest.mark.parametrize("method", [INFER, REFLECTION, *ADMIN])
def test_token_of_the_only_file_is_good_for_all(rule, method):
    assert outcome(rule(tokens=True, admins=False), method, bearer("user")) is None
    assert outcome(rule(tokens=True, admins=False), method, [("authorization", "bearer  user ")]) is None


@pytest.mark.parametrize("method", ADMIN)
def test_administrative_calls_need_an_administrators_token(rule, method):
    for tokens in (True, False):
        asked = rule(tokens=tokens, admins=True)
        assert outcome(asked, method) is UnauthenticatedError
        assert outcome(asked, method, bearer("wrong")) is UnauthenticatedError
        assert outcome(asked, method, bearer("admin")) is None
    assert outcome(rule(tokens=True, admins=True), method, bearer("user")) is PermissionDeniedError
    assert outcome(rule(tokens=False, admins=True), method, bearer("user")) is UnauthenticatedError


def test_other_calls_take_either_token_or_none_where_none_is_asked_for(rule):
    assert outcome(rule(tokens=True, admins=True), INFER, bearer("user")) is None
    assert outcome(rule(tokens=True, admins=True), INFER, bearer("admin")) is None
    assert outcome(rule(tokens=True, admins=True), INFER) is UnauthenticatedError
    assert outcome(rule(tokens=False, admins=True), INFER) is None


def test_no_refusal_tells_a_token(rule):
    for method in (INFER, LOAD):
        for metadata in (bearer("a-secret"), bearer("user")):
            refusal = rule(tokens=False, admins=True).refusal(method, metadata)
            assert refusal is None or not any(word in str(refusal) for word in ("a-secret", "user", "admin\n"))


# Triton's option. ------------------------------------------------------------------------------------------------


def test_restricted_groups_want_their_header():
    asked = RestrictionRule(["model-repository,logging:admin-key=a=b", "inference:Infer=x"])

    for method in (LOAD, f"{SERVICE}LogSettings"):
        assert outcome(asked, method) is UnavailableError
        assert outcome(asked, method, [("triton-grpc-protocol-admin-key", "wrong")]) is UnavailableError
        assert outcome(asked, method, [("triton-grpc-protocol-admin-key", "a=b")]) is None
    assert outcome(asked, INFER, [("triton-grpc-protocol-infer", "x")]) is None
    assert outcome(asked, f"{SERVICE}ModelMetadata") is None


def test_refusal_has_tritons_words():
    refusal = RestrictionRule(["inference:k=secret"]).refusal(INFER, [])

    assert str(refusal) == "This protocol is restricted, expecting header 'triton-grpc-protocol-k'"


@pytest.mark.parametrize("method", HEALTH)
def test_health_can_be_restricted_as_in_triton(method):
    assert outcome(RestrictionRule(["health:k=v"]), method) is UnavailableError


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (["inference"], "expected GROUP"),
        (["inference:key"], "expected GROUP"),
        (["inference:=secret"], "expected GROUP"),
        ([":key=secret"], "expected GROUP"),
        (["nothing:key=secret"], "no group 'nothing'; there are health, metadata"),
        (["inference:a=secret", "logging,inference:b=secret"], "'inference' is named twice"),
    ],
)
def test_restriction_that_cannot_be_read_is_an_error_without_its_secret(values, says):
    with pytest.raises(LoadError, match=says) as caught:
        RestrictionRule(values)

    assert "secret" not in str(caught.value)
