"""A proxy of others that speaks gRPC: nginx."""

import os
import re
import shutil
import signal
import subprocess
import time

import psutil

from tests.documents import blocks
from tests.end_to_end.fleet import free_port

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


(DOCUMENTED,) = blocks("nginx")


class Nginx:
    """A proxy, set up as docs/scaling.md has it, that spreads calls over those replicas that are in rotation."""

    FRAME = """
        daemon off; error_log {directory}/error.log; pid {directory}/nginx.pid; worker_processes 1;
        events {{ worker_connections 512; }}
        http {{
            access_log off; keepalive_requests 1000000;
            client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
            fastcgi_temp_path {directory}/fcgi; uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
            {documented}
        }}"""

    def __init__(self, directory, replicas):
        self.address = f"127.0.0.1:{free_port()}"
        self._directory = directory
        self._file = directory / "nginx.conf"
        self._write(replicas)

    def _write(self, replicas):
        servers = " ".join(f"server {replica.address};" for replica in replicas)
        documented = re.sub(r"(server [\d.:]+; ?)+", f"{servers} ", DOCUMENTED.text, count=1)
        documented = re.sub(r"listen \d+ ", f"listen {self.address} ", documented)
        assert servers in documented
        assert self.address in documented
        self._file.write_text(self.FRAME.format(directory=self._directory, documented=documented))

    def __enter__(self):
        self._process = subprocess.Popen([NGINX, "-p", self._directory, "-c", self._file], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while not (self._directory / "nginx.pid").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return self

    def rotate(self, replicas):
        """Send new calls to these alone, as an ingress does when the endpoints of its service change."""
        before = self._workers()
        self._write(replicas)
        self._process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 20
        while not self._workers() - before:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def _workers(self):
        """Return the processes that take new calls; one that was replaced finishes those it has."""
        return {
            child.pid
            for child in psutil.Process(self._process.pid).children()
            if "worker process" in (line := " ".join(child.cmdline())) and "shutting down" not in line
        }

    def __exit__(self, *error):
        self._process.terminate()
        self._process.wait(20)
