"""What anybody on the wire can send: forged handshakes, floods, broken options, and very many honest subflows.

Forged segments come in at wired from 10.66.0.0/16, which the gateway reaches over the client, so that its answers go
out and are seen. The client drops them.
"""

import random
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.netns.connections import reset
from tests.netns.forging import segment
from tests.netns.links_world import AT_CLIENT, CLIENT, GATEWAY, IPV4, IPV6, connection, endpoint, link
from tests.netns.throttler_world import classes, elements, status, throttler
from tests.netns.world import connected, eventually, on, resident, settled, socket_at
from throttler.sources.draining import PAUSE, SECOND
from throttler.sources.limits import Limits
from tributary.wire.options import MpCapable, MpJoinAck, MpJoinSyn, emit
from tributary.wire.segments import Flags

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("world", "spoofed")]

SYN, ACK, FIN, RST = Flags.SYN, Flags.ACK, Flags.FIN, Flags.RST
MOST_GROWTH = 30 * 2**20
"""Bytes by which a flood may let the daemon's resident memory grow."""


@pytest.fixture(scope="module")
def spoofed(world: None) -> None:  # noqa: ARG001
    """The way back to the forged addresses."""
    on(GATEWAY, "ip route add 10.66.0.0/16 via 10.0.1.2 dev wired")


@pytest.fixture(scope="module")
def ethernet(world: None) -> bytes:  # noqa: ARG001
    """The link layer of a frame from the client to the gateway."""
    addresses = "".join(link(name, "wired")["address"] for name in (GATEWAY, CLIENT))
    return bytes.fromhex(addresses.replace(":", "")) + b"\x08\x00"


def packet(source: str, port: int, flags: Flags, options: bytes, offset: int | None = None) -> bytes:
    """A segment to the gateway's server over IPv4; ``offset`` is that of its header instead of the true one."""
    return segment((source, port), (IPV4, 3128), flags, (1000, 2000), options, offset)


def send(ethernet: bytes, packets: Sequence[bytes], rate: int = 5000) -> float:
    """Put packets on the wire at that many a second; returns the seconds it took."""
    with socket_at(AT_CLIENT, socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind(("wired", 0))
        began = time.monotonic()
        for number, packet in enumerate(packets):
            if number % 50 == 0:
                time.sleep(max(0, began + number / rate - time.monotonic()))
            wire.send(ethernet + packet)
        return time.monotonic() - began


def address(number: int) -> str:
    return f"10.66.{number // 250 % 250}.{number % 250 + 1}"


def counted() -> int:
    """How often the daemon counted anything."""
    return sum(status()["counters"].values())


def passed() -> int:
    """Packets that came through the capture filter on wired and were not dropped for want of room."""
    counts = status()["capture"]["wired"]
    return int(counts["passed"]) - int(counts["dropped"])


def token_over(interface_address: str) -> str:
    """The token of the session whose first subflow came from there."""
    (found,) = (
        session["token"]
        for session in status()["sessions"]
        for subflow in session["subflows"]
        if subflow["initial"] and subflow["remote"].startswith(f"{interface_address}:")
    )
    return str(found)


def test_a_syn_alone_never_makes_an_element(source: str, ethernet: bytes) -> None:
    with throttler(source), connection():
        before = eventually(elements)
        token = int(token_over("10.0.1.2"), 16)
        opening, joining = emit(MpCapable(1, 1)), emit(MpJoinSyn(False, 9, token, b"nonc"))
        send(ethernet, [packet(address(number), 1024, SYN, opening) for number in range(500)])
        send(ethernet, [packet(address(number), 1025, SYN, joining) for number in range(500)])
        eventually(lambda: source == "kernel" or passed() >= 1000)
        settled(counted)
        assert elements() == before
        found = status()
        assert (found["counters"]["elements added"], found["sessions_total"], found["subflows_total"]) == (1, 1, 2)


def joins(token: int, count: int, chance: random.Random) -> Iterator[bytes]:
    """Joins to a random session and to a real one by turns; an ACK with a random HMAC follows each of the latter."""
    late: list[bytes] = []
    for number in range(count):
        source, port = address(chance.randrange(50_000)), chance.randrange(1024, 65_536)
        name = token if number % 2 else chance.getrandbits(32)
        yield packet(source, port, SYN, emit(MpJoinSyn(False, 9, name, chance.randbytes(4))))
        if number % 2:
            late.append(packet(source, port, ACK, emit(MpJoinAck(chance.randbytes(20)))))
        if len(late) == 500:
            yield from late
            late.clear()


def openings(_token: int, count: int, chance: random.Random) -> Iterator[bytes]:
    """Sessions that are opened and never finished."""
    for _ in range(count):
        yield packet(address(chance.randrange(50_000)), chance.randrange(1024, 65_536), SYN, emit(MpCapable(1, 1)))


@pytest.mark.parametrize(
    ("flood", "expected"),
    [
        (joins, {("joins with an unknown token",): 10_000, ("wrong HMACs",): 10_000}),
        # A listener that is flooded answers some by SYN cookies, without MPTCP: these are over, and not evicted.
        (openings, {("half-open handshakes evicted", "fallbacks to plain TCP"): 20_000 - Limits().half_open}),
    ],
)
def test_a_flood_of_forged_handshakes_disturbs_nobody(
    ethernet: bytes, flood: Callable[[int, int, random.Random], Iterator[bytes]], expected: dict[tuple[str, ...], int]
) -> None:
    with throttler("sniffer") as child, connection(IPV4) as target, connection(IPV6) as bystander:
        held = eventually(lambda: elements(4) and elements(6) and (elements(4), elements(6), classes()))
        frames = list(flood(int(token_over("10.0.1.2"), 16), 20_000, random.Random(1)))
        before = resident(child.pid)
        # Two seconds if the sender keeps pace; much slower it would be no flood.
        assert send(ethernet, frames, rate=len(frames) // 2) < 5
        settled(counted)
        found = status()
        assert child.poll() is None
        assert resident(child.pid) - before < MOST_GROWTH
        assert (elements(4), elements(6), classes()) == held
        assert found["counters"]["elements added"] == 2
        dropped = found["capture"]["wired"]["dropped"]
        for names, count in expected.items():
            assert count - dropped <= sum(found["counters"].get(name, 0) for name in names) <= count, found["counters"]
        for old in (target, bystander):
            old.transfer(1000)
        with connection(IPV4), connection(IPV6):
            eventually(lambda: len(elements(4)) == len(elements(6)) == 2)


def test_a_join_to_a_closed_session_comes_to_nothing(source: str, ethernet: bytes) -> None:
    with throttler(source), connection(IPV6):
        eventually(lambda: elements(6))
        with connection() as client:
            eventually(elements)
            token = int(token_over("10.0.1.2"), 16)
            client.close()
        eventually(lambda: not elements() and len(classes()) == 1)
        join, proof = emit(MpJoinSyn(False, 9, token, b"nonc")), emit(MpJoinAck(bytes(20)))
        kinds = ((SYN, join), (ACK, proof))
        send(ethernet, [packet(address(number), 1024, *kind) for number in range(100) for kind in kinds])
        settled(counted)
        found = status()
        assert (found["sessions_total"], found["subflows_total"], found["counters"]["elements added"]) == (1, 2, 2)
        assert not elements()


MORE_ADDRESSES = ("10.0.1.12", "10.0.1.13", "10.0.1.14")


@contextmanager
def more_addresses() -> Iterator[int]:
    """The client has more addresses on wired; gives how many subflows join each session."""
    try:
        for each in MORE_ADDRESSES:
            on(CLIENT, f"ip address add {each}/24 dev wired")
            on(CLIENT, f"ip mptcp endpoint add {each} dev wired subflow")
        yield 1 + len(MORE_ADDRESSES)
    finally:
        for each in MORE_ADDRESSES:
            with suppress(StopIteration):
                on(CLIENT, f"ip mptcp endpoint del id {endpoint(CLIENT, each)}")
            on(CLIENT, f"ip address del {each}/24 dev wired", check=False)


def kernel_state() -> str:
    """All that the throttler has in the kernel, without counters."""
    commands = ("nft -s list ruleset", "tc qdisc show dev wired", "tc class show dev wired", "tc filter show dev wired")
    return re.sub(r"direct_packets_stat \d+", "", "".join(on(GATEWAY, command) for command in commands))


def joined(client: socket.socket) -> int:
    """How many subflows it has beside the first one: the first byte of MPTCP_INFO at SOL_MPTCP (linux/mptcp.h)."""
    return client.getsockopt(284, 1, 64)[0]


def test_a_thousand_subflows_come_and_go_without_a_trace(source: str) -> None:
    rounds, sessions = 10, 20
    with throttler(source) as child, more_addresses() as joins:
        # All but the one over wireless.
        held = sessions * joins
        idle, before = kernel_state(), resident(child.pid)
        for _ in range(rounds):
            with ExitStack() as opened:
                clients = [
                    opened.enter_context(connected(AT_CLIENT, IPV4, 3128, protocol=socket.IPPROTO_MPTCP))
                    for _ in range(sessions)
                ]
                for client in clients:
                    client.sendall(b"100\n")
                    client.recv(100, socket.MSG_WAITALL)
                eventually(lambda: all(joined(client) >= joins for client in clients))  # noqa: B023
                eventually(lambda: len(set(elements())) == held)
            eventually(lambda: not elements())
        eventually(lambda: kernel_state() == idle)
        found = status()
        totals = ("sessions_total", "subflows_total", "throttled_total", "classes_total")
        assert [found[total] for total in totals] == [0, 0, 0, 0]
        assert found["counters"]["elements added"] == found["counters"]["elements removed"] == rounds * held
        assert found["counters"]["throttled in a shared class: no class of their own was free"] == 0
        assert resident(child.pid) - before < MOST_GROWTH


def from_port(port: int) -> socket.socket:
    """A session from that port of the client's, as soon as the gateway has heard that the one before is reset."""

    def opened() -> socket.socket | None:
        with suppress(OSError):
            made = connected(AT_CLIENT, IPV4, 3128, ("10.0.1.2", port), protocol=socket.IPPROTO_MPTCP)
            with suppress(OSError):
                made.sendall(b"1\n")
                if made.recv(1):
                    return made
            made.close()
        return None

    return eventually(opened)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("source", "shared_by"), [("kernel", "subflow"), ("sniffer", "session")])
def test_sessions_from_one_port_one_after_the_other_are_each_throttled(source: str, shared_by: str) -> None:
    rule = f'name = "all"\nmin_subflows = 1\nrate = "5mbit"\nshared_by = "{shared_by}"'
    policy = f'[paths.wired]\ninterface = "wired"\n[[rules]]\n{rule}\n'
    with throttler(source, policy) as child, connection(IPV6):
        for _ in range(5):
            with from_port(25000) as client:
                time.sleep(0.1)
                reset(client)
        with from_port(25000):
            # By then the ends that the kernel's events told late have been looked at, too.
            time.sleep(3 * PAUSE / SECOND)
            assert child.poll() is None
            eventually(lambda: len(elements(4)) == len(elements(6)) == 1)
            assert elements(4) == ["10.0.1.1 . 3128 . 10.0.1.2 . 25000"]
        eventually(lambda: not elements(4))
        assert len(elements(6)) == 1
        assert "resets" not in status()["counters"]
