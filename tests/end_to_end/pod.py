"""A server held as a manifest's container is: addresses of its own, a root that is read-only, no privileges."""

import itertools
import subprocess
import sys
from pathlib import Path

import psutil

ADDRESS = "10.244.0.7"
"""The pod's, in a network that has nothing but this pod."""
MODELS = "/mnt/models"
"""Where the model is mounted, for want of /models on every machine."""

# All of it is gone with the name spaces. What the manifest mounts can be written, and nothing else.
_SETUP = """
set -e
address=$1 model=$2 models=$3 writable=$4; shift 4
mount --make-rprivate /
ip link set lo up
ip address add "$address/32" dev lo
mount -t tmpfs tmpfs /mnt
mkdir -p "$models"
mount --bind "$model" "$models"
mount -t tmpfs tmpfs /run
for directory in $writable; do mkdir -p "$directory"; mount -t tmpfs tmpfs "$directory"; done
mount -o remount,ro /run
mount -o remount,bind,ro /
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"
"""
_UNSHARE = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child")


def can_be_made():
    """Whether this user may make what a pod is made of here."""
    tried = [*_UNSHARE, "ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


class PodProcess:
    """The server of a pod's template on a model; gone after the ``with`` block."""

    def __init__(self, template, model):
        self._template = template
        writable = [
            mount["mountPath"] for mount in template.server.get("volumeMounts", []) if not mount.get("readOnly")
        ]
        arguments = [
            argument.replace("{{.Name}}", "kit") for argument in template.server.get("args", ["serve", MODELS])
        ]
        is_named = any(MODELS in argument for argument in template.server.get("args", []))
        self._process = subprocess.Popen(
            [*_UNSHARE, "sh", "-c", _SETUP, "sh", ADDRESS, model, MODELS if is_named else f"{MODELS}/kit",
             " ".join(writable), sys.executable, "-m", "service", *arguments],
            env={**_environment(), **template.environment}, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.kill()
        self._process.communicate()

    def wait_until(self, line):
        """Return the log up to the line that has this text, or to its end."""
        return list(itertools.takewhile(lambda each: line not in each, self._process.stderr))

    @property
    def _first(self):
        (first,) = psutil.Process(self._process.pid).children()
        return first

    @property
    def enter(self):
        """The beginning of a command that runs in the pod's network."""
        return ("nsenter", "--target", str(self._first.pid), "--net")

    def answers(self, address, port):
        """Whether somebody listens there, seen from within the pod's network."""
        program = "import socket, sys; socket.create_connection((sys.argv[1], sys.argv[2]), 5)"
        command = [*self.enter, sys.executable, "-c", program, address, str(port)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def get(self, port, path):
        """Return a page from the pod's address."""
        program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())"
        command = [*self.enter, sys.executable, "-c", program, f"http://{ADDRESS}:{port}{path}"]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout

    def stop(self, grace_s):
        """Send SIGTERM as the kubelet does and return the exit code; an error after the grace period."""
        self._first.terminate()
        self._process.communicate(timeout=grace_s)
        return self._process.returncode


def _environment():
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/tmp",  # noqa: S108 - as in the image
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }
