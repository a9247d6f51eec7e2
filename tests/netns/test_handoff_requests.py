import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from experiments.handoff.network import SERVICE, URL
from tests.netns.converter_services import fields_of, heard
from tests.netns.early_answers import SMALL, TRAP, EarlyAnswers
from tests.netns.handoff_world import LONG, SIZE, HandOff, get, needs_tools, pattern, request
from tests.netns.world import eventually, needs, serving

pytestmark = needs_tools

EITHER = """\
[[handoff.rules]]
path = "/a/"
max_size = "1MB"
to = ["a"]
[[handoff.rules]]
path = "/a/"
to = ["a", "b"]
choose = "least-loaded"
"""


def relay_below(handoff: HandOff, size: str, *rules: str) -> None:
    """Restarts the front with this setting."""
    handoff.restart("front", *rules, relay_below=size)
    eventually(lambda: handoff.is_handed(f"a/{LONG}"))


def ways(handoff: HandOff) -> dict[str, int]:
    """How many requests went each way so far."""
    found = re.findall(r'^tributary_converter_handoff_requests_total{decision="(.*)"} (\d+)$', handoff.metrics(), re.M)
    return {way: int(count) for way, count in found}


def has_lines(handoff: HandOff, count: int) -> None:
    """Waits for so many in the access log."""
    eventually(lambda: len(handoff.lines()) == count)


def outcomes(handoff: HandOff, *paths: str) -> list[str]:
    """Of requests, each by a connection of its own."""
    before = len(handoff.lines())
    for number, path in enumerate(paths):
        handoff.curl("--output", "/dev/null", URL + path)
        has_lines(handoff, before + number + 1)
    return [line["outcome"] for line in handoff.lines()[before:]]


def test_a_small_object_is_relayed_once_it_is_known_and_a_large_one_is_handed_over(handoff: HandOff) -> None:
    relay_below(handoff, "64kB")
    assert outcomes(handoff, f"b/{SIZE}", "b/1000") == ["handed-over"] * 2, "nobody knows"
    before = ways(handoff)
    assert outcomes(handoff, "b/1000", f"b/{SIZE}", "b/1000?query") == ["ok", "handed-over", "ok"]
    assert handoff.lines()[-1]["server"] == handoff.network.http("b")
    after = ways(handoff)
    assert (after["small"] - before.get("small", 0), after["handed-over"] - before["handed-over"]) == (2, 1)


def test_a_connection_goes_from_a_back_end_to_the_front_for_a_small_object_of_another_one(
    handoff: HandOff, tmp_path: Path
) -> None:
    relay_below(handoff, "10kB")
    outcomes(handoff, "b/1000", "a/1000")
    before = len(handoff.lines())
    paths = [f"a/{SIZE}", "a/1000", "b/1000", f"b/{SIZE}"]
    assert handoff.fetch(paths, tmp_path) == [pattern(path[0], int(path[2:])) for path in paths]
    has_lines(handoff, before + 4)
    outcomes_of = [line["outcome"] for line in handoff.lines()[before:]]
    assert outcomes_of == ["handed-over", "handed-over", "ok", "handed-over"], "it stays where it is, if it may"


def test_the_least_loaded_back_end_is_chosen_for_what_no_rule_of_sizes_is_for(handoff: HandOff) -> None:
    network = handoff.network
    (network.objects("b") / "a").mkdir(exist_ok=True)
    for size in (LONG, 1000):
        (network.objects("b") / f"a/{size}").write_bytes(pattern("a", size))
    relay_below(handoff, "0B", EITHER)
    eventually(lambda: not handoff.at_back_ends())
    with ExitStack() as unread:
        for number in range(6):
            unread.enter_context(handoff.connection()).sendall(request(f"a/{LONG}"))
            eventually(lambda: len(handoff.at_back_ends()) == number + 1)  # noqa: B023
        at = [line.split()[3] for line in handoff.at_back_ends()]
        assert sorted(at) == sorted([network.hand_off("a"), network.hand_off("b")] * 3)
        assert outcomes(handoff, "a/1000", "a/1000", "a/1000")[1:] == ["handed-over"] * 2
        assert [line["target"] for line in handoff.lines()[-2:]] == ["a", "a"]
    with handoff.connection() as client:
        get(client, "a", LONG)


# --- HTTP/2 without TLS: relayed as it is, by a rule for every request; Upgrade asks in vain ---

FOR_B = """\
[[handoff.rules]]
path = "/b/"
to = ["b"]
"""
FOR_ALL = """\
[[handoff.rules]]
to = ["a"]
"""
VERSIONS = ("--write-out", "%{http_version} %{http_code} %{num_connects}\\n")


@contextmanager
def started(handoff: HandOff, rules: str) -> Iterator[None]:
    """Both back ends and a front with these rules; what serves a's plain HTTP speaks HTTP/2 alone."""
    with handoff.network.start_nginx("a", http2=True):
        handoff.restart("a", relays=True)
        handoff.restart("front", rules)
        yield


@needs("nginx")
def test_a_connection_of_http2_is_relayed_to_one_back_end_whatever_it_asks_for(
    handoff: HandOff, tmp_path: Path
) -> None:
    server, got = handoff.network.http("a"), tmp_path / "got"

    def asked(path: str) -> str:
        # One each: curl before 8.0 cannot ask for more by a connection of HTTP/2 that it began without asking.
        return handoff.curl(*VERSIONS, "--http2-prior-knowledge", "--output", str(got), URL + path, check=False)

    with started(handoff, FOR_B + FOR_ALL):
        eventually(lambda: asked("a/1") == "2 200 1\n")
        # The line of an exchange is written behind it.
        eventually(lambda: server in [line["target"] for line in handoff.lines()])
        before = len(handoff.lines())
        assert asked(f"a/{SIZE}") == "2 200 1\n"
        assert got.read_bytes() == pattern("a", SIZE)
        assert asked("b/1") == "2 404 1\n", "it has nothing of b's"
        eventually(lambda: len(handoff.lines()) == before + 2)
        for line, size in zip(handoff.lines()[before:], (SIZE, 0), strict=True):
            assert (line["outcome"], line["target"], line["server"]) == ("ok", server, server)
            assert size < line["down_bytes"] < size + 5000
        # Who asks for HTTP/2 by a header gets an answer of HTTP/1.1, handed over as any other.
        handoff.wait_for("a")
        for name in "ab":
            upgraded = ("--http2", "--output", "/dev/null", URL + f"{name}/{SIZE}")
            assert handoff.curl(*VERSIONS, *upgraded).split() == ["1.1", "200", "1"]
            # The line is written once the switch has said so.
            eventually(lambda: handoff.outcomes("handed-over")[-1]["target"] == name)  # noqa: B023


@needs("nginx")
def test_without_a_rule_for_every_request_http2_is_refused(handoff: HandOff) -> None:
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    with started(handoff, FOR_B):
        assert handoff.exchange(preface).startswith(b"HTTP/1.1 505")
        eventually(lambda: handoff.lines()[-1].get("status") == 505)
        # Behind a request it is none of HTTP/2's beginnings either.
        with handoff.connection() as client:
            client.sendall(b"GET /b/none HTTP/1.1\r\nHost: b\r\n\r\n" + preface)
            got = b"".join(iter(lambda: client.recv(65536), b""))
        assert got.startswith(b"HTTP/1.1 404") and b"HTTP/1.1 505" in got


# --- Uploads that are answered early ---


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
