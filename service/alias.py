"""Names of the form ``MODEL:SIGNATURE``."""

from collections.abc import Collection


def split_alias(name: str, models: Collection[str]) -> tuple[str, str] | None:
    """Return the model and the signature that a name means, where it names no model itself.

    The model is the longest prefix before a colon that is one. Callers choose names: one of a million colons must not
    cost a million looks at prefixes of it, so those longer than every model's name are not tried.

    Args:
        name: as a caller wrote it, of any length.
        models: the names of all models.

    Returns:
        None when no prefix before a colon is a model.
    """
    if ":" not in name:
        return None
    end = name.rfind(":", 0, 1 + max(map(len, models), default=0))
    while end >= 0:
        if name[:end] in models:
            return name[:end], name[end + 1 :]
        end = name.rfind(":", 0, end)
    return None
