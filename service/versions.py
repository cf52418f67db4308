"""Version numbers: how clients write them, and which of those on disk a policy serves."""

import re
from collections.abc import Iterable
from typing import Final

from protos import model_config_pb2
from service.errors import InvalidArgumentError, LoadError

_NUMBER: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9]+)")
_MAX: Final = 2**63 - 1


def parse_version(text: str) -> int | None:
    """Read the version of a request.

    The rule is that of C's ``strtol`` on 64 bits, as in Triton: leading blanks and zeros and anything behind the digits
    pass, so ``"01"`` and ``"1abc"`` mean 1.

    Returns:
        The number, 0 or more; None for the empty string, which means the latest version.

    Raises:
        InvalidArgumentError: there are no digits, the number is negative, or it does not fit 64 bits.
    """
    if not text:
        return None
    match = _NUMBER.match(text)
    # 19 digits hold every 64-bit number; longer ones are refused before int() meets its own limit.
    digits = match[2].lstrip("0") if match else ""
    if match is None or len(digits) > 19 or int(digits or "0") > _MAX:
        raise InvalidArgumentError(
            f"failed to get model version from specified version string '{text[:100]}' (details: stol), "
            "version should be an integral value > 0"
        )
    number = int(digits or "0")
    if match[1] == "-" and number:
        raise InvalidArgumentError(
            f"invalid model version specified '{text[:100]}' , version should be an integral value > 0"
        )
    return number


def choose_versions(on_disk: Iterable[int], policy: model_config_pb2.ModelVersionPolicy) -> list[int]:
    """Return the versions that a policy serves, ascending.

    ``latest`` (the default, with one version) takes the highest numbers, ``specific`` the listed ones that are there,
    ``all`` every one.
    """
    versions = sorted(on_disk)
    kind = policy.WhichOneof("policy_choice")
    if kind == "all":
        return versions
    if kind == "specific":
        wanted = set(policy.specific.versions)
        return [version for version in versions if version in wanted]
    count = policy.latest.num_versions or 1
    return versions[-count:]


def versions_to_serve(on_disk: Iterable[int], policy: model_config_pb2.ModelVersionPolicy, *, model: str) -> list[int]:
    """Return the versions of a model that its policy serves, ascending.

    Raises:
        LoadError: there is none.
    """
    versions = sorted(on_disk)
    chosen = choose_versions(versions, policy)
    if not chosen:
        raise LoadError(f"model '{model}': the version policy serves none of {versions}")
    return chosen
