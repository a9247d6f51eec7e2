"""HTTP/2 without TLS at a hand-off's front: relayed as it is, by a rule for every request; Upgrade asks in vain."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.handoff.network import URL
from tests.netns.handoff_world import SIZE, HandOff, needs_tools, pattern
from tests.netns.world import eventually, needs

pytestmark = [needs_tools, needs("nginx")]

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
