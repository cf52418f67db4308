"""A stand-in for one more server: forwards connections to a server, and counts what passes."""

import socket
import socketserver
import threading
from contextlib import contextmanager


class _Forwarding(socketserver.BaseRequestHandler):
    def handle(self):
        with socket.create_connection(self.server.target) as upstream:
            back = threading.Thread(target=self._pump, args=(upstream, self.request))
            back.start()
            self.server.forwarded += self._pump(self.request, upstream)
            back.join()

    def _pump(self, source, sink):
        """Copy bytes until the source ends, and return how many there were."""
        count = 0
        try:
            while chunk := source.recv(65536):
                sink.sendall(chunk)
                count += len(chunk)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other side is gone, which ends the connection all the same
        return count


class _Forwarder(socketserver.ThreadingTCPServer):
    daemon_threads = False


@contextmanager
def forwarder(address):
    """Forward from a free port to ``host:port`` during the block; ``forwarded`` counts bytes of ended connections."""
    host, _, port = address.rpartition(":")
    with _Forwarder(("127.0.0.1", 0), _Forwarding) as server:
        server.target, server.forwarded = (host, int(port)), 0
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
