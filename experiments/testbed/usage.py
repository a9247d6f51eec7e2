"""What the kernel counts of a node: what happens inside TCP and MPTCP, packets on its interfaces, processor time."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from experiments.testbed.node import Node

_TICK = os.sysconf("SC_CLK_TCK")
_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ = 0, 1, 2, 5, 6  # proc_stat(5)
_UTIME, _STIME = 11, 12  # proc_pid_stat(5), counted from the field behind the command's name


def packets_received(node: Node, interfaces: Iterable[str]) -> int:
    """Frames that have come in by ``interfaces``."""
    shown = json.loads(node.ip("-j", "-s", "link", "show"))
    wanted = set(interfaces)
    return sum(link["stats64"]["rx"]["packets"] for link in shown if link["ifname"] in wanted)


def bytes_passed(text: str) -> dict[str, tuple[int, int]]:
    """What /proc/net/dev says: the bytes that each interface has received, and sent (proc_pid_net(5))."""
    lines = (line.split(":") for line in text.splitlines() if ":" in line)
    counts = {name.strip(): [int(count) for count in counted.split()] for name, counted in lines}
    return {name: (each[0], each[8]) for name, each in counts.items()}


def process_seconds(node: Node) -> float:
    """Processor time of all processes that run in ``node``, softirqs that interrupt them not counted in full."""
    paths = [f"/proc/{pid}/stat" for pid in node.pids()]
    # One that has ended meanwhile counts no more.
    lines = node.run("sh", "-c", 'cat "$@" 2>/dev/null || true', "sh", "/dev/null", *paths).splitlines()
    return sum(map(_process_ticks, lines)) / _TICK


def machine_seconds(node: Node) -> float:
    """Processor time that the machine of ``node`` has spent working, link emulation included."""
    ticks = [int(field) for field in node.run("cat", "/proc/stat").splitlines()[0].split()[1:]]
    return sum(ticks[kind] for kind in (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ)) / _TICK


def _process_ticks(stat: str) -> int:
    fields = stat.rpartition(")")[2].split()
    return int(fields[_UTIME]) + int(fields[_STIME])


def parse(text: str) -> Counter[str]:
    """What /proc/net/netstat or /proc/net/snmp says, by the names that nstat(8) shows: pairs of lines, names and then
    numbers, each behind a prefix.
    """
    lines = [line.split() for line in text.splitlines()]
    found: Counter[str] = Counter()
    for (prefix, *names), (_, *numbers) in zip(lines[::2], lines[1::2], strict=True):
        found |= {prefix.rstrip(":") + name: int(number) for name, number in zip(names, numbers, strict=True)}
    return found


def counters(node: Node) -> Counter[str]:
    """All of ``node``'s, since it was made."""
    return parse(node.run("cat", "/proc/net/netstat", "/proc/net/snmp"))


@contextmanager
def counted(node: Node) -> Iterator[Callable[[], Counter[str]]]:
    """The function given says by how much each counter has grown since the block began; 0 for one that is not there."""
    before = counters(node)
    yield lambda: counters(node) - before
