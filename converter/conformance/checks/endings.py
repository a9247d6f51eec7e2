"""How a connection ends, each way (RFC 8803 section 4.2)."""

from ..rig import Rig
from ..stream import Ending, Stream, brief
from ..verdict import Checks, Level, require
from .data import block

CHECKS = Checks()
LATE = 300_000  # bytes that go on in one direction after the other has ended


def _ended(stream: Stream, wanted: Ending, who: str) -> str:
    rest, ending = stream.rest()
    require(not rest and ending == wanted, f"the {who}'s connection {wanted}", f"{brief(rest)}, then {ending}")
    return f"the {who}'s connection was {ending}"


def _half_closed(first: Stream, other: Stream, who: str, whom: str) -> str:
    """Ends one direction; the other must go on, and then end too."""
    late = block(LATE, seed=5)
    first.send(b"last words")
    first.finish()
    other.expect(b"last words", f"the {who}'s last data at the {whom}")
    _ended(other, Ending.CLOSED, whom)
    with other.sending(late):
        first.expect(late, f"the {whom}'s data after the {who}'s FIN")
    other.finish()
    return f"{brief(late)} after the FIN; then " + _ended(first, Ending.CLOSED, who)


@CHECKS.add("4.2", Level.MUST)
def half_close_by_client(rig: Rig) -> str:
    """A client's FIN reaches the server, whose data still reach the client, and then its FIN."""
    return _half_closed(*rig.connected(), "client", "server")


@CHECKS.add("4.2", Level.MUST)
def half_close_by_server(rig: Rig) -> str:
    """A server's FIN reaches the client, whose data still reach the server, and then its FIN."""
    upstream, downstream = rig.connected()
    return _half_closed(downstream, upstream, "server", "client")


@CHECKS.add("4.2", Level.MUST)
def fin_with_message(rig: Rig) -> str:
    """A client's FIN right behind message and data reaches the server behind the data."""
    origin = rig.origin()
    upstream = rig.upstream()
    upstream.ask(rig.request(origin.connect()) + b"all at once")
    upstream.finish()
    downstream = origin.accept()
    downstream.expect(b"all at once", "the data at the server")
    _ended(downstream, Ending.CLOSED, "server")
    require(upstream.reply().error is None, "a reply without an Error TLV", "one")
    downstream.send(b"answer")
    upstream.expect(b"answer", "the server's answer")
    return "data, FIN and answer passed"


@CHECKS.add("4.2", Level.MUST)
def reset_by_server(rig: Rig) -> str:
    """A server's reset tears the client's connection down; it does not look like a proper end."""
    upstream, downstream = rig.connected()
    downstream.reset()
    return _ended(upstream, Ending.RESET, "client")


@CHECKS.add("4.2", Level.MUST)
def reset_by_client(rig: Rig) -> str:
    """A client's reset tears the server's connection down; it does not look like a proper end."""
    upstream, downstream = rig.connected()
    upstream.reset()
    return _ended(downstream, Ending.RESET, "server")
