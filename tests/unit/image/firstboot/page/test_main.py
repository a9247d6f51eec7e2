"""The command: how it ends."""

import http.client
import os
import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from image.firstboot import interfaces
from image.firstboot.page.__main__ import main
from tributary.settings import cli
from tributary.settings.errors import Exit


@pytest.fixture
def unwinding() -> Iterator[None]:
    """Signals as ``cli.run`` has them."""
    before = signal.signal(signal.SIGTERM, cli._unwind)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("unwinding")
def test_a_signal_within_a_request_ends_it_once_that_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def ports() -> tuple[interfaces.Interface, ...]:
        signal.raise_signal(signal.SIGTERM)
        return ()

    monkeypatch.setattr(interfaces, "interfaces", ports)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    statuses, over = [], threading.Event()

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        for _ in range(100):
            try:
                connection.connect()
                break
            except ConnectionRefusedError:
                over.wait(0.1)
        connection.request("GET", "/")
        statuses.append(connection.getresponse().status)
        connection.close()
        if not over.wait(10):
            statuses.append(0)
            os.kill(os.getpid(), signal.SIGTERM)

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(SystemExit) as ended:
        main(["--dry-run", "--at", f"127.0.0.1:{port}"])
    over.set()
    asking.join(20)
    assert (ended.value.code, statuses) == (Exit.TERMINATED, [200])
