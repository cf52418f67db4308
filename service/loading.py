"""Loads one version: SavedModel, configuration, warm-up."""

import logging
from pathlib import Path

from protos.model_config_pb2 import ModelConfig
from service import saved_model
from service.layouts import DEFAULT_MODEL_DIRECTORY, saved_model_directory
from service.model_config import complete, graph_tags
from service.model_version import ModelVersion
from service.settings import Settings
from service.warm_up import warm_up

logger = logging.getLogger(__name__)


def load_version(name: str, version: int, directory: Path, config: ModelConfig, settings: Settings) -> ModelVersion:
    """Load a version and warm it up.

    Args:
        name: the model's name.
        version: its number.
        directory: the version directory, or a SavedModel.
        config: as read from the model's config.pbtxt; empty when it has none.
        settings: of the server.

    Raises:
        LoadError: the SavedModel is broken, or the configuration does not fit it.
    """
    path = saved_model_directory(directory, config.default_model_filename or DEFAULT_MODEL_DIRECTORY)
    servable = saved_model.load(path, model=name, version=version, tags=graph_tags(config))
    try:
        completed = complete(config, model=name, signatures=servable.signatures, defaults=settings.config_defaults())
        loaded = ModelVersion(name, version, servable, completed)
    except BaseException:
        servable.close()
        raise
    warm_up(loaded)
    return loaded
