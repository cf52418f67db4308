"""Who may call what: decided from a call's method and metadata alone, the same on every transport."""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from service.errors import LoadError, PermissionDeniedError, SignetError, UnauthenticatedError, UnavailableError
from service.tokens import Tokens

SERVICE: Final = "/inference.GRPCInferenceService/"
_HEALTH_SERVICE: Final = "/grpc.health.v1.Health/"

GROUPS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "health": ("ServerLive", "ServerReady", "ModelReady"),
        "metadata": ("ServerMetadata", "ModelMetadata"),
        "model-config": ("ModelConfig",),
        "inference": ("ModelInfer", "ModelStreamInfer"),
        "statistics": ("ModelStatistics",),
        "shared-memory": (
            *("SystemSharedMemoryStatus", "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister"),
            *("CudaSharedMemoryStatus", "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister"),
        ),
        "model-repository": ("RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"),
        "trace": ("TraceSetting",),
        "logging": ("LogSettings",),
    }
)
"""Triton's names for groups of methods; grpc.health.v1 belongs to health."""

_ADMIN_GROUPS: Final = ("shared-memory", "model-repository", "trace", "logging")
_GROUP_OF: Final = {SERVICE + method: group for group, methods in GROUPS.items() for method in methods}

_AUTHORIZATION: Final = "authorization"
_SCHEME: Final = "bearer"
_RESTRICTION_PREFIX: Final = "triton-grpc-protocol-"

Metadata = Iterable[tuple[str, str | bytes]]


class Rule(Protocol):
    """Something that calls have to fulfil."""

    def refusal(self, method: str, metadata: Metadata) -> SignetError | None:
        """Return why a call is refused, None when it is not.

        Args:
            method: the full name, such as ``/inference.GRPCInferenceService/ModelInfer``.
            metadata: what the caller sent, keys in lower case.
        """
        ...


class Access:
    """All rules of a server. Without any, nothing is asked of a caller."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self._rules: Final = tuple(rules)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def refusal(self, method: str, metadata: Metadata) -> SignetError | None:
        """Return why a call is refused, None when it is not; see ``Rule.refusal``."""
        for rule in self._rules:
            refusal = rule.refusal(method, metadata)
            if refusal is not None:
                return refusal
        return None


ANYBODY: Final = Access()
"""Lets everybody do everything."""


def make_access(token_file: Path | None, admin_token_file: Path | None, restrictions: Sequence[str]) -> Access:
    """Return the rules that the options of a server make.

    Raises:
        LoadError: a file of tokens cannot be used, or a restriction cannot be read.
    """
    rules: list[Rule] = []
    if token_file is not None or admin_token_file is not None:
        rules.append(
            TokenRule(
                None if token_file is None else Tokens(token_file),
                None if admin_token_file is None else Tokens(admin_token_file),
            )
        )
    if restrictions:
        rules.append(RestrictionRule(restrictions))
    return Access(rules)


class TokenRule:
    """Wants a bearer token, for all calls or for those that change the server. Probes of health need none."""

    def __init__(self, tokens: Tokens | None, admin_tokens: Tokens | None) -> None:
        """Create the rule.

        Args:
            tokens: for all calls; None asks for none.
            admin_tokens: for the calls that change the server, and good for all others too; None means that ``tokens``
                are good for all.
        """
        self._tokens: Final = tokens
        self._admin_tokens: Final = admin_tokens

    def refusal(self, method: str, metadata: Metadata) -> SignetError | None:
        """Return why a call is refused."""
        group = _group_of(method)
        is_admin = group in _ADMIN_GROUPS and self._admin_tokens is not None
        if group == "health" or (self._tokens is None and not is_admin):
            return None
        token = _bearer_token(metadata)
        if token is None:
            return UnauthenticatedError(f"{_short(method)} needs a bearer token in the metadata '{_AUTHORIZATION}'")
        if self._admin_tokens is not None and self._admin_tokens.know(token):
            return None
        if self._tokens is None or not self._tokens.know(token):
            return UnauthenticatedError(f"{_short(method)}: the bearer token is not known")
        if is_admin:
            return PermissionDeniedError(f"{_short(method)} needs a token of --admin-token-file")
        return None


class RestrictionRule:
    """Triton's ``--grpc-restricted-protocol``: some groups of methods want a header of a fixed value."""

    def __init__(self, restrictions: Sequence[str]) -> None:
        """Read the option's values, such as ``model-repository,logging:admin-key=secret``.

        Raises:
            LoadError: a value cannot be read, or two name one group. The text does not tell the secret.
        """
        self._wanted: dict[str, tuple[str, bytes]] = {}
        for restriction in restrictions:
            groups, _, header = restriction.partition(":")
            key, _, value = header.partition("=")
            if not groups or not key or not value:
                raise LoadError(f"--grpc-restricted-protocol {groups}: expected GROUP[,GROUP...]:KEY=VALUE")
            for group in groups.split(","):
                self._restrict(group, _RESTRICTION_PREFIX + key.lower(), value)

    def _restrict(self, group: str, header: str, value: str) -> None:
        if group not in GROUPS:
            raise LoadError(f"--grpc-restricted-protocol: there is no group '{group}'; there are {', '.join(GROUPS)}")
        if group in self._wanted:
            raise LoadError(f"--grpc-restricted-protocol: the group '{group}' is named twice")
        self._wanted[group] = header, value.encode()

    def refusal(self, method: str, metadata: Metadata) -> SignetError | None:
        """Return why a call is refused, in Triton's words."""
        wanted = self._wanted.get(_group_of(method))
        if wanted is None:
            return None
        header, value = wanted
        given = [_bytes(sent) for key, sent in metadata if key == header]
        if any(hmac.compare_digest(each, value) for each in given):
            return None
        return UnavailableError(f"This protocol is restricted, expecting header '{header}'")


def _group_of(method: str) -> str:
    """Return the group of a method, an empty text for one without, such as reflection."""
    return "health" if method.startswith(_HEALTH_SERVICE) else _GROUP_OF.get(method, "")


def _bearer_token(metadata: Metadata) -> str | None:
    for key, value in metadata:
        if key == _AUTHORIZATION and isinstance(value, str):
            scheme, _, token = value.partition(" ")
            if scheme.lower() == _SCHEME and token.strip():
                return token.strip()
    return None


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _short(method: str) -> str:
    return method.rpartition("/")[2]
