"""What a node's traffic costs: packets on its interfaces, processor time of its processes and of the whole machine."""

import json
import os
from collections.abc import Iterable

from experiments.testbed.node import Node

_TICK = os.sysconf("SC_CLK_TCK")
_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ = 0, 1, 2, 5, 6  # proc_stat(5)
_UTIME, _STIME = 11, 12  # proc_pid_stat(5), counted from the field behind the command's name


def packets_received(node: Node, interfaces: Iterable[str]) -> int:
    """Frames that have come in by ``interfaces``."""
    shown = json.loads(node.ip("-j", "-s", "link", "show"))
    wanted = set(interfaces)
    return sum(link["stats64"]["rx"]["packets"] for link in shown if link["ifname"] in wanted)


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
