"""Access links: what gives them their rate, delay, jitter, loss and queue.

A link is a node of its own between the client and the gateway, so that both ends keep their qdiscs to themselves: the
throttler's HTB sits on the gateway's end. Where the kernel has sch_netem, the node is a bridge with netem(8) for delay
and loss and tbf(8) for rate and queue; else it runs link-emulator, which gives the same from the same description. A
link with a trace always runs it: netem and tbf have no rates that change by themselves.

    client  [wired]-----[client]  link-wired  [gateway]-----[wired]  gateway
                         up: qdisc of `gateway`, down: qdisc of `client`
"""

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from experiments.testbed.node import Node, run
from experiments.testbed.topology import Direction, Link
from tributary.paths import CACHE
from tributary.settings.errors import CommandError, Exit

# Frames in netem's delay line: a bound on memory, never the link's queue. 250 ms at 1 Gbit/s is 21,000 frames.
_DELAY_LINE = 100_000
EMULATOR = CACHE / "bin/link-emulator"
"""Where scripts/setup puts it."""
PROBE = "tributary-probe-"
"""What the namespaces are called in which something is tried, with the number of the process that does."""
_MTU, _ETHERNET_HEADER = 1500, 14  # bytes


@cache
def kernel_has_netem() -> bool:
    """Whether links can be emulated by netem(8)."""
    return kernel_has_qdisc("netem", "delay", "1ms")


def emulation(*links: Link) -> str:
    """What emulates ``links``, or one without a trace: "netem", "link-emulator", or both where some have traces."""
    by_netem = {_by_netem(link) for link in links} or {kernel_has_netem()}
    return " and ".join(["netem"] * (True in by_netem) + ["link-emulator"] * (False in by_netem))


def _by_netem(link: Link) -> bool:
    return not link.traced and kernel_has_netem()


def kernel_has_qdisc(*words: str) -> bool:
    """Whether this kernel can make a qdisc such as ``netem delay 1ms``, tried in a namespace of its own."""
    probe = Node(f"{PROBE}{os.getpid()}", Path("/"))
    try:
        probe.create()
        return _takes(probe, words)
    finally:
        with suppress(CommandError):  # that it is not there: it may have been interrupted on its way
            probe.delete()


def _takes(probe: Node, words: Sequence[str]) -> bool:
    try:
        probe.run("tc", "qdisc", "add", "dev", "lo", "root", *words)
    except CommandError:
        return False
    return True


def need_an_emulator() -> None:
    """Raise CommandError (exit 69) unless links can be emulated here, one way or the other."""
    if not kernel_has_netem() and not EMULATOR.exists():
        raise CommandError(
            Exit.UNAVAILABLE, f"this kernel has no sch_netem and {EMULATOR} is not built: run scripts/setup"
        )


def connect(link: Link, client: Node, node: Node, gateway: Node, seed: int) -> None:
    """Join ``client`` and ``gateway`` through ``node``, by netem(8) or by the emulator, which alone heeds ``seed``.

    Raises CommandError (exit 69) if the link has a trace, and no emulator is here.
    """
    if link.traced and not EMULATOR.exists():
        raise CommandError(
            Exit.UNAVAILABLE,
            f"link {link.name} has a trace, and {EMULATOR}, which replays it, is not built:"
            f" run scripts/setup.d/programs {CACHE} link-emulator",
        )
    # A link says nothing of its own.
    node.sysctl(net__ipv6__conf__default__disable_ipv6=1)
    _cable(client, link.name, node, "client")
    _cable(gateway, link.name, node, "gateway")
    if _by_netem(link):
        _bridge(link, node)
    else:
        command = [*_emulator(link, seed), "--control", _control(link, node)]
        node.start(f"emulator-{link.name}", command).wait_until_ready()


def set_delay(link: Link, node: Node) -> None:
    """Give a link without jitter that connect() made the delays of ``link``; by an emulator also what is under way."""
    if _by_netem(link):
        for port, direction in _ports(link):
            node.run("tc", *delay_command(port, direction).split())
    else:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as control:
            control.sendto(f"{link.up.delay},{link.down.delay}".encode(), _control(link, node))


def set_mtu(link: Link, client: Node, node: Node, gateway: Node, mtu: int) -> None:
    """Let a link that connect() made carry packets of up to ``mtu`` bytes; its rate is true for those of that size."""
    for end, interface in ((client, link.name), (node, "client"), (node, "gateway"), (gateway, link.name)):
        end.ip("link", "set", "dev", interface, "mtu", str(mtu))
    if _by_netem(link):
        for port, direction in _ports(link):
            for command in rate_commands(port, direction, mtu):
                node.run("tc", *command.split())


def _ports(link: Link) -> tuple[tuple[str, Direction], ...]:
    """The node's interfaces, each with the direction that leaves by it."""
    return ("client", link.down), ("gateway", link.up)


def _cable(end: Node, interface: str, node: Node, port: str) -> None:
    names = ["name", interface, "netns", end.namespace, "type", "veth"]
    run(["ip", "link", "add", *names, "peer", "name", port, "netns", node.namespace])
    for side, name in ((end, interface), (node, port)):
        # A link carries packets as they would be on a wire: no super-frames, whole checksums.
        side.run("ethtool", "-K", name, "tso", "off", "gso", "off", "gro", "off", "tx", "off", "rx", "off")
        side.ip("link", "set", "dev", name, "up")


def _bridge(link: Link, node: Node) -> None:
    node.ip("link", "add", "bridge", "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
    for port, direction in _ports(link):
        node.ip("link", "set", port, "master", "bridge")
        for command in (delay_command(port, direction), *rate_commands(port, direction, _MTU)):
            node.run("tc", *command.split())
    node.ip("link", "set", "bridge", "up")


def delay_command(port: str, direction: Direction) -> str:
    """The tc(8) command for delay and loss of one ``direction`` of a link, that leaves the node by ``port``."""
    return (
        f"qdisc replace dev {port} root handle 1: netem limit {_DELAY_LINE}"
        f" delay {direction.delay} {direction.jitter} loss {direction.loss}"
    )


def rate_commands(port: str, direction: Direction, mtu: int) -> tuple[str, ...]:
    """The tc(8) commands for rate and queue of one ``direction``, behind its delay_command(); also to change them.

    The rate is of IP bytes, but tbf counts frames, and a size table that takes the Ethernet header off is for root
    qdiscs only (tc-stab(8)). So tbf gets the frame rate of packets of ``mtu`` bytes; small ones come out a little
    slower. A frame that is larger than its burst it drops. The queue comes last: a change of tbf changes it as well
    (fifo_set_limit() in net/sched/sch_fifo.c).
    """
    frame = mtu + _ETHERNET_HEADER
    frame_rate = direction.rate.amount * frame // mtu
    burst = max(2 * frame, frame_rate // 8 // 1000)
    return (
        f"qdisc replace dev {port} parent 1:1 handle 2:"
        f" tbf rate {frame_rate}bit burst {burst} limit {direction.queue * frame}",
        f"qdisc replace dev {port} parent 2:1 handle 3: pfifo limit {direction.queue}",
    )


def _control(link: Link, node: Node) -> str:
    """The socket at which the emulator of a link is told other delays."""
    return str(node.directory / f"emulator-{link.name}.control")


def _emulator(link: Link, seed: int) -> list[str]:
    return [
        *(str(EMULATOR), "--a", "client", "--b", "gateway", "--seed", str(1000 * seed + link.number)),
        *("--a-to-b", _specification(link.up), "--b-to-a", _specification(link.down)),
    ]


def _specification(direction: Direction) -> str:
    carries = f"trace={direction.trace}" if direction.trace else f"rate={direction.rate}"
    return f"{carries},delay={direction.delay},jitter={direction.jitter},loss={direction.loss},queue={direction.queue}"
