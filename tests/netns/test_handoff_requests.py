import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from experiments.handoff.network import SERVICE, URL
from tests.netns.connections import TCP, read_all
from tests.netns.early_answers import SIZES, SMALL, EarlyAnswers
from tests.netns.handoff_world import LONG, SIZE, HandOff, get, needs_tools, pattern, request
from tests.netns.world import eventually, listener_at, needs, serving

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


def went(handoff: HandOff, *ways: str) -> list[float]:
    """How many requests went each of these ways so far."""
    metrics = handoff.metrics()
    return [metrics.get(f'tributary_converter_handoff_requests_total{{decision="{way}"}}', 0) for way in ways]


def outcomes(handoff: HandOff, *paths: str) -> list[str]:
    """Of requests, each by a connection of its own."""
    found = list[str]()
    for path in paths:
        with handoff.logged(1) as lines:
            handoff.curl("--output", "/dev/null", URL + path)
        found += [line["outcome"] for line in lines]
    return found


def test_a_small_object_is_relayed_once_it_is_known_and_a_large_one_is_handed_over(handoff: HandOff) -> None:
    relay_below(handoff, "64kB")
    assert outcomes(handoff, f"b/{SIZE}", "b/1000") == ["handed-over"] * 2, "nobody knows"
    small, handed = went(handoff, "small", "handed-over")
    assert outcomes(handoff, "b/1000", f"b/{SIZE}", "b/1000?query") == ["ok", "handed-over", "ok"]
    assert handoff.lines()[-1]["server"] == handoff.network.http("b")
    assert went(handoff, "small", "handed-over") == [small + 2, handed + 1]


def test_a_connection_goes_from_a_back_end_to_the_front_for_a_small_object_of_another_one(
    handoff: HandOff, tmp_path: Path
) -> None:
    relay_below(handoff, "10kB")
    outcomes(handoff, "b/1000", "a/1000")
    paths = [f"a/{SIZE}", "a/1000", "b/1000", f"b/{SIZE}"]
    with handoff.logged(4) as lines:
        assert handoff.fetch(paths, tmp_path) == [pattern(path[0], int(path[2:])) for path in paths]
    assert [line["outcome"] for line in lines] == ["handed-over", "handed-over", "ok", "handed-over"], (
        "it stays where it is, if it may"
    )


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
        with handoff.logged(2) as lines:
            assert asked(f"a/{SIZE}") == "2 200 1\n"
            assert got.read_bytes() == pattern("a", SIZE)
            assert asked("b/1") == "2 404 1\n", "it has nothing of b's"
        for line, size in zip(lines, (SIZE, 0), strict=True):
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
            got = read_all(client)[0]
        assert got.startswith(b"HTTP/1.1 404") and b"HTTP/1.1 505" in got


# --- Uploads that are answered early ---


def post(end: bytes, content: bytes) -> bytes:
    head = b"POST /relayed%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n"
    return head % (end, SERVICE.encode(), len(content)) + content


@contextmanager
def listening(handoff: HandOff, server: EarlyAnswers) -> Iterator[list[tuple[str, int]]]:
    """The server in the place of back end a's; who came to it."""
    handoff.processes.pop("a").stop()
    listener = listener_at(handoff.nodes["a"], 80, handoff.network.address("a"), TCP, SMALL)

    def serve(connection: socket.socket) -> None:
        connection.settimeout(20)
        server.serve(connection)

    with serving(listener, serve) as came:
        yield came


def test_upload_that_a_back_end_answers_early_takes_nothing_from_the_next_request(handoff: HandOff) -> None:
    """The next request's content ends in a request that nobody has sent, and that no rule has seen: it must never be
    served. Of some sizes, a part of the upload waits in the front alone when it is answered."""

    def passed_on() -> tuple[int]:
        return (int(handoff.metrics()["tributary_converter_buffered_bytes"]),)

    server, went_on = EarlyAnswers(), 0
    with listening(handoff, server) as came:
        for size in SIZES:
            server.forget()
            came.clear()
            with handoff.connection() as client:
                went_on += server.takes_nothing_of_the_next(client, post, size, passed_on, came)
    assert went_on, "of no size a part waited in the front alone"
