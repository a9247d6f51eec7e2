"""What the kernel counts: of a node what happens inside TCP and MPTCP, and packets; processor time; memory."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

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
    return sum(sum(process_times(line)) for line in lines)


def machine_seconds(node: Node) -> float:
    """Processor time that the machine of ``node`` has spent working, link emulation included."""
    ticks = [int(field) for field in node.run("cat", "/proc/stat").splitlines()[0].split()[1:]]
    return sum(ticks[kind] for kind in (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ)) / _TICK


def process_times(stat: str) -> tuple[float, float]:
    """Seconds of a process in user space and in the kernel, by its /proc/PID/stat."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[_UTIME]) / _TICK, int(fields[_STIME]) / _TICK


class Clocks:
    """The processor time of whole processes, which may end, since this was made."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._seconds = dict.fromkeys(pids, 0.0)
        self._before = self._now()

    def seconds(self) -> float:
        """All of it together, by their clocks (clock_getcpuclockid(3))."""
        return self._now() - self._before

    def _now(self) -> float:
        for pid in self._seconds:
            with suppress(OSError):
                self._seconds[pid] = time.clock_gettime(~pid << 3 | 2)
        return sum(self._seconds.values())


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


def resident(pid: int) -> int:
    """Bytes that the process and its descendants have in memory; what they share with anybody else counts in full, but
    once among them.
    """
    sizes = [_memory(each) for each in family(pid)]
    first, *others = sorted(sizes, key=lambda size: size["Rss"], reverse=True)
    return 1024 * (first["Rss"] + sum(size["Private_Clean"] + size["Private_Dirty"] for size in others))


def proportional(pids: Sequence[int]) -> int:
    """Bytes that the processes and their descendants have in memory; of what is shared each has its part (Pss)."""
    return 1024 * sum(_memory(each)["Pss"] for pid in pids for each in family(pid))


def _memory(pid: int) -> dict[str, int]:
    """The kilobytes of /proc/PID/smaps_rollup (proc(5))."""
    lines = (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines()[1:]
    return {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}


def family(pid: int) -> list[int]:
    """The process and its descendants."""
    tasks = (Path("/proc") / str(pid) / "task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [pid, *(each for child in children for each in family(child))]
