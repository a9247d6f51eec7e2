"""The kernel's counters of a node: what happened inside its TCP and MPTCP, by the names that nstat(8) shows."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from experiments.testbed.node import Node


def parse(text: str) -> Counter[str]:
    """What /proc/net/netstat or /proc/net/snmp says: pairs of lines, names and then numbers, each behind a prefix."""
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
