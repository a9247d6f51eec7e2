import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.netns.connections import take_head
from tests.netns.handoff_world import LARGE, HandOff, answer, needs_tools, pattern, request
from tests.netns.short_probes import PROBED_FOR, shorten_probes
from tests.netns.world import eventually, serving

pytestmark = needs_tools

LONGER = PROBED_FOR + 3


@contextmanager
def slow_server(handoff: HandOff) -> Iterator[None]:
    """The first back end asks a server whose answers begin late, if their path says so."""
    with handoff.nodes["a"].entered():
        listener = socket.create_server(("127.0.0.1", 8080))

    def serve(connection: socket.socket) -> None:
        while True:
            if b"/late " in take_head(connection).partition(b"\r\n")[0]:
                time.sleep(LONGER)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

    with serving(listener, serve):
        handoff.restart("a", relays=True)
        handoff.wait_for("a")
        yield


def test_an_answer_whose_first_byte_comes_late_comes(handoff: HandOff) -> None:
    shorten_probes(handoff.processes["front"].popen.pid, 80)
    with slow_server(handoff), handoff.begun("a/late") as client:
        before = len(handoff.outcomes("handed-over"))
        assert answer(client) == b"hello"
        client.sendall(request("a/1"))
        assert answer(client) == b"hello"
        eventually(lambda: len(handoff.outcomes("handed-over")) == before + 2)


def test_a_switch_that_starts_anew_late_in_a_long_answer_loses_no_connection(handoff: HandOff) -> None:
    """Without a rule the client's packets come to the front's socket, which is still there, and drops them."""
    shorten_probes(handoff.processes["front"].popen.pid, 80)
    with handoff.begun(f"a/{LARGE}") as client:
        time.sleep(LONGER)
        handoff.kill("switch")
        again = threading.Timer(1, handoff.start, ("switch",))
        again.start()
        assert answer(client) == pattern("a", LARGE)
        again.join()
