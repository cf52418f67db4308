"""A model repository on disk and what serves from it, for tests of what people's repositories look like.

Everything is real: places, plans, polls, and the loader with TensorFlow, on copies of tiny exports.
"""

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from service.errors import LoadError
from service.loading import VersionLoader
from service.model_places import ModelPlaces
from service.repository import Repository
from service.repository_poller import RepositoryPoller
from service.settings import Settings
from tests.service.serving import WAIT_S

READY = "READY"
UNAVAILABLE = "UNAVAILABLE"
FAILED = {("clip", "1"): UNAVAILABLE}
NO_VERSION = {("clip", ""): UNAVAILABLE}
DATA = "variables/variables.data-00000-of-00001"
INTERVAL_S = 1000.0
"""Of polls, and the quiet time: longer than any test, so that nothing that it writes has lain still."""
X = np.ones((2, 4), np.float32)


def served(*versions, model="clip"):
    return {(model, str(version)): READY for version in versions}


def cut(file, part=0.5):
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * part)])


class Site:
    """A model repository on disk, what serves from it, and the log."""

    def __init__(self, root, export, caplog):
        self.root = root
        self.loads = 0
        self._export = export
        self._caplog = caplog
        self._loader = VersionLoader(Settings(default_max_batch_size=4))
        self.repository = Repository(self._load)
        self.places = ModelPlaces([root], [])
        self.poller = RepositoryPoller(self.repository, self.places, INTERVAL_S, INTERVAL_S)
        root.chmod(0o755)

    def _load(self, *arguments):
        self.loads += 1
        return self._loader.load(*arguments)

    def put(self, place="clip/1", config=None, kind="module"):
        """Copy an export to a place; write a configuration for the model."""
        path = shutil.copytree(self._export(kind), self.root / place)
        if config is not None:
            self.write(Path(place).parts[0] + "/config.pbtxt", config)
        return path

    def write(self, place, content=""):
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def start(self):
        """Load all models, as a server does when it starts."""
        try:
            sources = self.places.all_models()
        except LoadError as error:
            return [str(error)]
        for source in sources:
            self.repository.add(source)
        return [problem for source in sources for problem in self.repository.load(source.name)]

    def poll(self, times=2):
        """Look again; two looks that see the same count."""
        for _ in range(times):
            self.poller.poll()
        self.repository._retirements.wait("clip", WAIT_S)

    def states(self):
        return {(each.name, each.version): each.state for each in self.repository.index()}

    def reasons(self):
        return " ".join(each.reason for each in self.repository.index())

    def log(self):
        """Return the warnings and errors since the last call."""
        lines = [record.getMessage() for record in self._caplog.records if record.levelname in ("WARNING", "ERROR")]
        self._caplog.clear()
        return lines

    def answer(self, name="clip"):
        """Return which version answers, after it did."""
        loaded = self.repository.find(name, "").loaded
        assert loaded.run("serving_default", {"x": X}, ["y"])["y"].shape[0] == len(X)
        return loaded.version


@contextmanager
def open_site(export, caplog):
    """Give a site in a directory that other users may read, unlike pytest's own."""
    caplog.set_level("WARNING", "service")
    root = Path(tempfile.mkdtemp())
    made = Site(root, export, caplog)
    try:
        yield made
    finally:
        made.repository.close(WAIT_S)
        shutil.rmtree(root)
