"""Prometheus on the testbed's gateway, with the rules that the playbook installs, seen from this machine's loopback."""

import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from experiments.testbed.build import Testbed
from experiments.testbed.node import Node
from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit

CONVERTER, THROTTLER = "127.0.0.1:9465", "127.0.0.1:9464"
"""Where the gateway's programs give their metrics, in its namespace."""
_ADDRESS = "127.0.0.1", 9090
_RULES = ROOT / "ansible/roles/metrics/files/tributary.rules.yml"


@contextmanager
def prometheus(testbed: Testbed, listener: socket.socket) -> Iterator[None]:
    """Prometheus scrapes every two seconds, and is reached by ``listener``, for the length of the block.

    Raises CommandError, exit 69 if it is not installed, 71 if it does not begin.
    """
    program = shutil.which("prometheus")
    if program is None:
        raise CommandError(Exit.UNAVAILABLE, "not found: prometheus: apt install prometheus")
    gateway = testbed.gateway
    targets = [{"targets": [CONVERTER, THROTTLER]}]
    # JSON is YAML.
    settings = {
        "global": {"scrape_interval": "2s", "evaluation_interval": "2s"},
        "rule_files": [str(_RULES)],
        "scrape_configs": [{"job_name": "tributary", "static_configs": targets}],
    }
    file = gateway.write("prometheus.json", json.dumps(settings))
    data, address = gateway.directory / "prometheus", "{}:{}".format(*_ADDRESS)
    command = [program, f"--config.file={file}", f"--storage.tsdb.path={data}", f"--web.listen-address={address}"]
    gateway.start("prometheus", command).wait_until(lambda: _is_there(gateway))
    thread = threading.Thread(target=_forward, args=(listener, gateway), daemon=True)
    thread.start()
    try:
        yield
    finally:
        # Which ends accept().
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _is_there(gateway: Node) -> bool:
    with suppress(OSError), _connected(gateway):
        return True
    return False


def _connected(gateway: Node) -> socket.socket:
    with gateway.entered():
        return socket.create_connection(_ADDRESS, 5)


def _forward(listener: socket.socket, gateway: Node) -> None:
    """Until the listener is shut down."""
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_join, args=(client, gateway), daemon=True).start()


def _join(client: socket.socket, gateway: Node) -> None:
    with client, suppress(OSError), _connected(gateway) as server:
        server.settimeout(None)
        back = threading.Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        _pump(client, server)
        back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
