"""How a connection ends, each way (RFC 8803 section 4.2)."""

from ..rig import Rig
from ..stream import Ending, Stream, brief
from ..verdict import Checks, require
from .data import block

CHECKS = Checks()
LATE = 300_000  # bytes that go on in one direction after the other has ended


def _ends(rig: Rig, who: str) -> tuple[Stream, Stream]:
    """Both ends of a connection, that of "client" or "server" first."""
    ends = rig.connected()
    return ends if who == "client" else ends[::-1]


def _ended(stream: Stream, wanted: Ending, who: str) -> str:
    ending = stream.ends(wanted, expected=f"the {who}'s connection {wanted}")
    return f"the {who}'s connection was {ending}"


def _half_closed(rig: Rig, who: str, whom: str) -> str:
    """Ends one direction; the other must go on, and then end too."""
    first, other = _ends(rig, who)
    late = block(LATE, seed=5)
    first.send(b"last words")
    first.finish()
    other.expect(b"last words", f"the {who}'s last data at the {whom}")
    _ended(other, Ending.CLOSED, whom)
    with other.sending(late):
        first.expect(late, f"the {whom}'s data after the {who}'s FIN")
    other.finish()
    return f"{brief(late)} after the FIN; then " + _ended(first, Ending.CLOSED, who)


CHECKS.add_each(_half_closed, {
    "half-close-by-client": (
        "4.2", "A client's FIN reaches the server, whose data still reach the client, and then its FIN.",
        "client", "server"),
    "half-close-by-server": (
        "4.2", "A server's FIN reaches the client, whose data still reach the server, and then its FIN.",
        "server", "client"),
})  # fmt: skip


@CHECKS.add("4.2")
def fin_with_message(rig: Rig) -> str:
    """A client's FIN right behind message and data reaches the server behind the data."""
    origin = rig.origin()
    upstream = rig.ask(origin.connect(), data=b"all at once")
    upstream.finish()
    downstream = origin.accept()
    downstream.expect(b"all at once", "the data at the server")
    _ended(downstream, Ending.CLOSED, "server")
    require(upstream.reply().error is None, "a reply without an Error TLV", "one")
    downstream.send(b"answer")
    upstream.expect(b"answer", "the server's answer")
    return "data, FIN and answer passed"


def _reset(rig: Rig, who: str, whom: str) -> str:
    first, other = _ends(rig, who)
    first.reset()
    return _ended(other, Ending.RESET, whom)


CHECKS.add_each(_reset, {
    "reset-by-server": (
        "4.2", "A server's reset tears the client's connection down; it does not look like a proper end.",
        "server", "client"),
    "reset-by-client": (
        "4.2", "A client's reset tears the server's connection down; it does not look like a proper end.",
        "client", "server"),
})  # fmt: skip
