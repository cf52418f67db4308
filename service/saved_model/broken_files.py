"""The failure of a load that no other way of reading the SavedModel can mend."""

from service.errors import LoadError


class BrokenFilesError(LoadError):
    """A file of the SavedModel is missing or damaged."""
