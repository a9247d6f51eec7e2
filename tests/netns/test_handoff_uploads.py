import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.handoff.network import SERVICE
from tests.netns.converter_services import fields_of, heard
from tests.netns.early_answers import SMALL, TRAP, EarlyAnswers
from tests.netns.handoff_world import HandOff, needs_tools
from tests.netns.world import eventually, serving

pytestmark = needs_tools


def post(path: str, content: bytes) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: {SERVICE}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


@contextmanager
def listening(handoff: HandOff, server: EarlyAnswers) -> Iterator[list[tuple[str, int]]]:
    """The server in the place of back end a's; who came to it."""
    handoff.processes.pop("a").stop()
    with handoff.nodes["a"].entered():
        listener = socket.create_server((handoff.network.address("a"), 80))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)

    def serve(connection: socket.socket) -> None:
        connection.settimeout(20)
        server.serve(connection)

    with serving(listener, serve) as came:
        yield came


def buffered(handoff: HandOff) -> int:
    """Bytes that wait in the front."""
    found = re.search(r"^tributary_converter_buffered_bytes (\d+)$", handoff.metrics(), re.MULTILINE)
    assert found
    return int(found[1])


def wait_until_nothing_moves(handoff: HandOff, server: EarlyAnswers) -> None:
    eventually(lambda: server.paths)
    seen: list[int] = []
    while len(seen) < 4 or len(set(seen[-4:])) > 1:
        seen.append(buffered(handoff))
        time.sleep(0.02)


def test_upload_that_a_back_end_answers_early_takes_nothing_from_the_next_request(handoff: HandOff) -> None:
    """The next request's content ends in a request that nobody has sent, and that no rule has seen: it must never be
    served. Of some sizes, a part of the upload waits in the front alone when it is answered."""
    server, went_on = EarlyAnswers(), 0
    with listening(handoff, server) as came:
        for size in range(40_000, 200_000, 10_000):
            server.forget()
            came.clear()
            with handoff.connection() as client:
                client.sendall(post("/relayed/early", bytes(size)))
                wait_until_nothing_moves(handoff, server)
                waits = buffered(handoff) > 0
                server.may_answer.set()
                head, content = heard(client)
                server.may_read.set()
                assert (head.split()[1], content) == (b"401", b"no")
                if fields_of(head).get(b"connection") == b"close":
                    continue
                went_on += waits
                client.sendall(post("/relayed/next", TRAP))
                assert heard(client)[1] == b"done"
                assert len(came) == (2 if waits else 1)
            assert server.paths == [b"/relayed/early", b"/relayed/next"]
    assert went_on, "of no size a part waited in the front alone"
