"""Frames of this machine's kernel: the codec writes every option again as it was, and forged handshakes look the same.

The client has two links (links_world.py). Its sessions come by IPv4 and IPv6, with and without checksums; they
join, are told of addresses, lose them, are told of a backup, and end in order or by a fast close.
"""

import select
import socket
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address
from itertools import islice

import pytest
from scapy.layers.l2 import Ether

from experiments.probes.handshake_frames import Ends, subflows
from tests.netns.captures import ETH_P_ALL, Capture, capturing
from tests.netns.links_world import AT_CLIENT, CLIENT, GATEWAY, IPV4, IPV6, Connection, connection, endpoint
from tests.netns.world import connected, eventually, on
from throttler.sources.dissect import segment
from tributary.wire.keys import join_hmac, token
from tributary.wire.options import (
    END_OF_LIST,
    HMAC_IN_SYN_ACK,
    MPTCP,
    NO_OPERATION,
    AddAddr,
    MpCapable,
    MpFastclose,
    MpJoinAck,
    MpJoinSyn,
    MpJoinSynAck,
    MpPrio,
    Option,
    RemoveAddr,
    Subtype,
    Unparsed,
    emit,
    parse,
)
from tributary.wire.segments import Segment

pytestmark = pytest.mark.usefixtures("world")

OTHER_LINK = {IPV4: ("10.0.2.1", "10.0.2.2"), IPV6: ("fd00:0:0:2::1", "fd00:0:0:2::2")}
"""The gateway's and the client's address on the link that joins."""
HEAD = 14 + 40 + 60
"""Bytes of Ethernet, IPv6 and TCP with all of its options."""

Count = Callable[[type[Option]], int]
"""How many options of a kind have been seen."""


def seen(capture: Capture) -> list[Segment]:
    """The TCP segments so far."""
    found = (segment(frame, Ether, 0, "", False) for _, _, frame in capture.packets)
    return [each for each in found if each is not None]


def options_of(segments: Sequence[Segment]) -> Iterator[Option]:
    return (option for each in segments for option in parse(each.options))


def until(count: Count, kind: type[Option], number: int = 1) -> None:
    eventually(lambda: count(kind) >= number)


def live(session: Connection, address: str, port: int, count: Count) -> None:
    """All that happens to a session before it ends; ``port`` is one that nobody had before."""
    gateway, client = OTHER_LINK[address]
    until(count, MpJoinAck)
    session.transfer(20_000)
    # Beside time stamps there is no room for an IPv6 address with a port.
    for announced in (gateway, *([] if ":" in gateway else [f"{gateway} port {port}"])):
        both = count(AddAddr) + 2
        on(GATEWAY, f"ip mptcp endpoint add {announced} signal")
        until(count, AddAddr, both)  # the announcement and its echo
        on(GATEWAY, f"ip mptcp endpoint del id {endpoint(GATEWAY, gateway)}")
    until(count, RemoveAddr)
    on(CLIENT, f"ip mptcp endpoint change id {endpoint(CLIENT, client)} backup")
    until(count, MpPrio)
    on(CLIENT, f"ip mptcp endpoint change id {endpoint(CLIENT, client)} nobackup")


@pytest.fixture(scope="module")
def sessions(world: None) -> Mapping[str, list[Segment]]:  # noqa: ARG001
    """The segments of four sessions: by both IP versions, and with checksums."""
    found = {}
    for version, address in ((4, IPV4), (6, IPV6)):
        for checksums in (0, 1):
            for namespace in (CLIENT, GATEWAY):
                on(namespace, f"sysctl -q net.mptcp.checksum_enabled={checksums}")
            with capturing(AT_CLIENT, socket.SOCK_RAW, ETH_P_ALL, HEAD) as capture:

                def count(kind: type[Option], capture: Capture = capture) -> int:
                    return sum(isinstance(option, kind) for option in options_of(seen(capture)))

                with connection(address) as orderly:
                    live(orderly, address, 4000 + 10 * version + checksums, count)
                    orderly.close()
                leave_unread(address)
                until(count, MpFastclose)
            found[f"IPv{version}{' with checksums' if checksums else ''}"] = seen(capture)
    return found


def leave_unread(address: str) -> None:
    """Go with data unread, and so close all subflows at once (__mptcp_close() of net/mptcp/protocol.c)."""
    with connected(AT_CLIENT, address, 3128, protocol=socket.IPPROTO_MPTCP) as unread:
        unread.sendall(b"20000\n")
        select.select([unread], [], [])


SESSIONS = pytest.mark.parametrize("name", ["IPv4", "IPv4 with checksums", "IPv6", "IPv6 with checksums"])


def each_option(block: bytes) -> Iterator[bytes]:
    """The options of a TCP header one by one, with what stands between and behind them (RFC 9293 section 3.2)."""
    at = 0
    while at < len(block):
        if block[at] == END_OF_LIST:
            yield block[at:]
            return
        length = 1 if block[at] == NO_OPERATION else block[at + 1]
        yield block[at : at + length]
        at += length


def written_again(block: bytes) -> bytes:
    return b"".join(emit(*parse(each)) if each[0] == MPTCP else each for each in each_option(block))


@SESSIONS
def test_every_option_list_is_written_again_as_it_was(sessions: Mapping[str, list[Segment]], name: str) -> None:
    segments = sessions[name]
    assert len(segments) > 50
    assert [written_again(each.options).hex() for each in segments] == [each.options.hex() for each in segments]


@SESSIONS
def test_the_kernel_sent_every_kind_of_option(sessions: Mapping[str, list[Segment]], name: str) -> None:
    lengths: defaultdict[object, set[int]] = defaultdict(set)
    for option in options_of(sessions[name]):
        kind = option.subtype if isinstance(option, Unparsed) else type(option)
        lengths[kind].add(len(emit(option)))
    with_checksums = "checksums" in name
    with_ports = {14 + 4, 6 + 4} if "IPv4" in name else set()
    address = 4 if "IPv4" in name else 16
    assert lengths[MpCapable] == {4, 12, 20, 24 if with_checksums else 22}
    assert (lengths[MpJoinSyn], lengths[MpJoinSynAck], lengths[MpJoinAck]) == ({12}, {16}, {24})
    assert lengths[AddAddr] >= {12 + address, 4 + address} | with_ports, "announcements, and echoes"
    assert lengths.keys() >= {Subtype.DSS, MpFastclose, MpPrio, Subtype.MP_TCPRST, RemoveAddr}


def keys_of(segments: Sequence[Segment]) -> dict[int, tuple[bytes, bytes]]:
    """The client's and the listener's key of each session, by the token that joins name."""
    options = [option for option in options_of(segments) if isinstance(option, MpCapable)]
    pairs = [(each.sender_key, each.receiver_key) for each in options]
    return {token(listener): (client, listener) for client, listener in pairs if client and listener}


def joins(segments: Sequence[Segment]) -> Iterator[tuple[MpJoinSyn, MpJoinSynAck, MpJoinAck]]:
    """The options of each join that came about."""
    by_ends: dict[frozenset[tuple[str, int]], list[Option]] = defaultdict(list)
    for each in segments:
        ends = frozenset([(each.source, each.source_port), (each.destination, each.destination_port)])
        by_ends[ends] += parse(each.options)
    for options in by_ends.values():
        syns = (option for option in options if isinstance(option, MpJoinSyn))
        answers = (option for option in options if isinstance(option, MpJoinSynAck))
        acknowledged = (option for option in options if isinstance(option, MpJoinAck))
        yield from islice(zip(syns, answers, acknowledged, strict=False), 1)  # what comes again is the same


@SESSIONS
def test_tokens_and_proofs_are_those_of_the_kernel(sessions: Mapping[str, list[Segment]], name: str) -> None:
    keys = keys_of(sessions[name])
    joined = list(joins(sessions[name]))
    assert joined
    for syn, syn_ack, ack in joined:
        client, listener = keys[syn.receiver_token]
        proof = join_hmac(listener, client, syn_ack.sender_nonce, syn.sender_nonce)
        assert syn_ack.hmac == proof[:HMAC_IN_SYN_ACK]
        assert ack.hmac == join_hmac(client, listener, syn.sender_nonce, syn_ack.sender_nonce)


def form(each: Segment) -> tuple[int, tuple[str, ...]]:
    """What is the same in each handshake: flags of TCP; kinds, lengths, versions and flags of the options of MPTCP."""
    shapes = []
    for option in parse(each.options):
        wire = emit(option)
        # Of MP_CAPABLE the fourth byte is flags, too; of MP_JOIN it is an address id, or reserved.
        shapes.append(f"{type(option).__name__} {wire[: 4 if isinstance(option, MpCapable) else 3].hex()}")
    return each.flags, tuple(shapes)


def test_forged_handshakes_have_the_form_of_the_kernels(sessions: Mapping[str, list[Segment]]) -> None:
    from_kernel = {form(each) for each in sessions["IPv4"]}
    ends = Ends(b"\2clien", b"\2lstnr", IPv4Address("10.64.0.1"), IPv4Address("10.128.0.1"), 3128)
    for forged in subflows(ends, 4, 2, 2):
        for frame in (forged.syn, forged.syn_ack, forged.ack):
            found = segment(frame, Ether, 0, "", False)
            assert found is not None
            assert form(found) in from_kernel
            assert written_again(found.options) == found.options
