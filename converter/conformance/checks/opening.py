"""How a connection is opened (RFC 8803 sections 4.2, 4.3, 6.1, 6.2.5)."""

from .. import message
from ..rig import Rig, accepted
from ..stream import TCP_INFO_SYN_DATA
from ..verdict import Checks, Level, Skip, Unmet, require
from .data import whole_and_once

CHECKS = Checks()
GREETING = b"over the converter"


def _connects(rig: Rig, version: int) -> str:
    upstream, downstream = rig.connected(origin=rig.origin(rig.address(version)))
    upstream.send(GREETING)
    downstream.expect(GREETING, "the client's data at the server")
    downstream.send(GREETING[::-1])
    upstream.expect(GREETING[::-1], "the server's data at the client")
    return "connected, data passed both ways"


CHECKS.add_each(_connects, {
    "connect-ipv4": ("6.2.5", "A Base Connect with an IPv4-mapped address opens a connection to that IPv4 server.", 4),
    "connect-ipv6": ("6.2.5", "A Base Connect with an IPv6 address opens a connection to that server.", 6),
})  # fmt: skip


@CHECKS.add("6.1")
def reply_header(rig: Rig) -> str:
    """The reply starts with version 1, a Total Length and the magic number 0x2263."""
    origin = rig.origin()
    upstream = rig.ask(origin.connect())
    head = upstream.receive(message.WORD)
    if len(head) < message.WORD:
        raise Unmet("four bytes of header", head.hex() or "no byte")
    message.length(head)
    return head.hex()


@CHECKS.add("6.2.1")
def reply_framing(rig: Rig) -> str:
    """The reply's TLVs fill its Total Length, none comes twice, and data follow right behind."""
    origin = rig.origin()
    upstream = rig.ask(origin.connect())
    reply = accepted(upstream.reply())
    strange = set(reply.tlvs) - {message.Tlv.EXTENDED_TCP_HEADER}
    require(not strange, "at most an Extended TCP Header TLV in reply to a Base Connect", reply)
    origin.accept().send(GREETING)
    upstream.expect(GREETING, "the server's data right behind the reply")
    return str(reply)


@CHECKS.add("4.2")
def reply_waits_for_server(rig: Rig) -> str:
    """The converter confirms a connection only once the server has agreed to it."""
    origin = rig.origin(backlog=0)
    fillers = origin.hold_back()
    upstream = rig.ask(origin.connect())
    if not upstream.silent(max(0.6, 3 * rig.settings.quiet)):
        reply = upstream.reply()
        require(reply.error is not None, "no success while the server answers no SYN", reply)
        return f"{reply} while the server answered no SYN"
    for _ in fillers:
        origin.accept()
    reply = upstream.reply()
    if reply.error is None:
        origin.accept()
    return f"silence while the server answered no SYN, then {reply}"


@CHECKS.add("6.1")
def waits_for_whole_message(rig: Rig) -> str:
    """The converter acts on a message only when all of its Total Length has come."""
    origin = rig.origin()
    upstream = rig.upstream()
    request = rig.request(origin.connect())
    upstream.ask(request[:-1])
    require(upstream.silent(rig.settings.quiet), "silence before the last byte", "a reply or an end")
    origin.stays_untouched(0, "no downstream connection before the last byte")
    upstream.send(request[-1:])
    reply = accepted(upstream.reply())
    origin.accept()
    return str(reply)


@CHECKS.add("4.1")
def one_downstream_connection(rig: Rig) -> str:
    """One upstream connection gets exactly one downstream connection."""
    origin = rig.origin()
    rig.connected(origin=origin)
    origin.stays_untouched(expected="no second downstream connection")
    return "one"


@CHECKS.add("4.3")
def connections_do_not_mix(rig: Rig) -> str:
    """Connections open at the same time do not mix."""
    pairs = [rig.connected() for _ in range(4)]
    for number, (upstream, _) in enumerate(pairs):
        upstream.send(b"client %d" % number)
    for number, (upstream, downstream) in enumerate(pairs):
        downstream.expect(b"client %d" % number, "this client's data")
        downstream.send(b"server %d" % number)
        upstream.expect(b"server %d" % number, "this server's data")
    return f"{len(pairs)} connections, each with its own data"


@CHECKS.add("4.3")
def one_source_address(rig: Rig) -> str:
    """A client's connections reach servers from one source address (REQ-2 of RFC 6888)."""
    origin = rig.origin()
    sources = {rig.connected(origin=origin)[1].peer for _ in range(4)}
    require(len(sources) == 1, "one source address", ", ".join(sorted(sources)))
    return sources.pop()


@CHECKS.add("7.5")
def upstream_is_multipath(rig: Rig) -> str:
    """With --mptcp, the upstream connection is Multipath TCP."""
    if not rig.settings.mptcp:
        raise Skip("no --mptcp")
    upstream, _ = rig.connected()
    require(upstream.is_multipath, "Multipath TCP", "a fallback to TCP")
    return "Multipath TCP"


@CHECKS.add("4.2")
def connect_in_syn(rig: Rig) -> str:
    """A message in the SYN opens a connection; data behind it reach the server once."""
    origin = rig.origin()
    upstream = rig.upstream(syn_data=rig.request(origin.connect()) + GREETING)
    accepted(upstream.reply())
    whole_and_once(upstream, origin.accept(), GREETING)
    return "connected, data whole"


@CHECKS.add("A.2", Level.SHOULD)
def syn_data_acknowledged(rig: Rig) -> str:
    """The converter's SYN+ACK acknowledges the data in the SYN, without a Fast Open cookie."""
    origin = rig.origin()
    upstream = rig.upstream(syn_data=rig.request(origin.connect()))
    accepted(upstream.reply())
    taken = bool(upstream.negotiated[0] & TCP_INFO_SYN_DATA)
    require(taken, "an acknowledgment of the data in the SYN", "they had to be sent again")
    return "acknowledged"
