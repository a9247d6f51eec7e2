import selectors
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tributary.daemons.request_server import CONNECTIONS, Server


class Ground:
    """A server and its clients; a client that has bound a name that begins with P is preferred."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / "socket"))
        listener.listen(128)
        self.server = Server(listener, b"\n", 100, b"too long", prefers=self._is_preferred)
        self.clients: list[socket.socket] = []

    @staticmethod
    def _is_preferred(connection: socket.socket) -> bool:
        return Path(connection.getpeername()).name.startswith("P")

    def client(self, kind: str = "other", request: bytes = b"") -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.bind(str(self.folder / f"{kind}{len(self.clients)}"))
        made.settimeout(10)
        made.connect(str(self.folder / "socket"))
        made.sendall(request)
        self.clients.append(made)
        return made


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    with made.server:
        yield made
    for client in made.clients:
        client.close()


def served(ground: Ground, client: socket.socket, turns: int = 50) -> bytes:
    client.setblocking(False)
    got = b""
    for _ in range(turns):
        ground.server.serve(lambda request, _: request.upper())
        try:
            data = client.recv(1000)
        except BlockingIOError:
            continue
        if not data:
            return got
        got += data
    raise AssertionError(f"no end after {turns} turns, but {got!r}")


def test_who_says_nothing_gives_way_to_who_comes(ground: Ground) -> None:
    """Connections without a request, as many as there may be, keep nobody out."""
    silent = [ground.client() for _ in range(CONNECTIONS + 4)]
    assert served(ground, ground.client(request=b"hello\n")) == b"HELLO"
    assert silent[0].recv(1) == b""
    silent[-1].setblocking(False)
    with pytest.raises(BlockingIOError):
        silent[-1].recv(1)


def test_who_is_preferred_has_connections_that_nobody_else_gets(ground: Ground) -> None:
    first = ground.client("P")
    for _ in range(3 * CONNECTIONS):
        ground.client(request=b"hello\n")
        ground.server.serve(lambda *_: Future())
    first.sendall(b"first\n")
    assert served(ground, first) == b"FIRST"
    assert served(ground, ground.client("P", b"second\n")) == b"SECOND"


def test_one_request_of_those_who_are_not_preferred_is_answered_in_a_turn(ground: Ground) -> None:
    """What lies between two turns of a daemon is one answer, however many ask at once."""
    for _ in range(CONNECTIONS):
        ground.client(request=b"hello\n")
    ground.server.serve(lambda *_: b"")  # they are accepted
    answered: list[bytes] = []

    def answer(request: bytes, _: socket.socket) -> bytes:
        answered.append(request)
        return request

    for count in range(1, CONNECTIONS + 1):
        ground.server.serve(answer)
        assert len(answered) == count


def test_an_answer_that_comes_later_wakes_the_loop_and_is_sent(ground: Ground) -> None:
    client, later = ground.client(request=b"hello\n"), Future[bytes]()
    ground.server.serve(lambda *_: b"")
    ground.server.serve(lambda *_: later)
    with selectors.DefaultSelector() as selector:
        selector.register(ground.server, selectors.EVENT_READ)
        assert not selector.select(0.01)
        later.set_result(b"well")
        assert selector.select(10)
    assert served(ground, client) == b"well"


def test_an_answer_that_could_not_be_made_ends_the_connection(ground: Ground) -> None:
    client, later = ground.client(request=b"hello\n"), Future[bytes]()
    ground.server.serve(lambda *_: b"")
    ground.server.serve(lambda *_: later)
    later.set_exception(ValueError("no"))
    assert served(ground, client) == b""
