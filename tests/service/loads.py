"""Models on disk whose loads are scripted: what each is made of is real, what it loads is a fake."""

import os
import threading
from pathlib import Path

from service.layouts import find_model
from service.load_plan import make_plan
from tests.service.serving import WAIT_S, kit, model_version


class ModelDirectory:
    """A model in a repository, whose files change when told to."""

    def __init__(self, root: Path, name: str, *versions: int, config: str = ""):
        self.name = name
        self.path = root / name
        self._clock = 0
        for version in versions:
            self.add(version)
        self.configure(config)

    def add(self, version):
        (self.path / str(version)).mkdir(parents=True)
        self.touch(version)

    def touch(self, version):
        file = self.path / str(version) / "saved_model.pb"
        file.touch()
        self._clock += 1
        os.utime(file, ns=(self._clock, self._clock))

    def configure(self, text):
        (self.path / "config.pbtxt").write_text(text)

    def source(self):
        return find_model(self.path, self.name)


class Loader:
    """The function that loads for a repository: remembers each load, fails or waits where it is told to.

    Attributes:
        loads: name and version of each load that was begun.
        servables: what the loads that succeeded brought, in order.
        failures: errors to raise, by version.
        gate: loads wait for it.
    """

    def __init__(self):
        self.loads = []
        self.servables = []
        self.failures = {}
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Semaphore(0)

    def __call__(self, name, version, directory, config):
        self.loads.append((name, version))
        self.begun.release()
        assert self.gate.wait(WAIT_S)
        if version in self.failures:
            raise self.failures[version]
        self.servables.append(self.make())
        return model_version(self.servables[-1], name=name, version=version, config=config)

    def make(self):
        return kit()

    def wait_until_begun(self):
        assert self.begun.acquire(timeout=WAIT_S)


def apply(repository, model, override=None):
    """Load a model as it lies on disk now, as RepositoryModelLoad does."""
    return repository.apply(make_plan(model.source(), override, repository.plan(model.name)))


def states(repository):
    """Return version, state and reason of all that the index lists; versions that are being closed are waited for."""
    repository._retirements.wait("clip", WAIT_S)
    return [(entry.version, entry.state, entry.reason) for entry in repository.index()]
