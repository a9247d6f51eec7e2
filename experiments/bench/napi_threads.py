"""Threads that take in what comes to a device: so the processor time for packets can be told from all other."""

import time
from collections.abc import Sequence
from pathlib import Path

from experiments.testbed.node import Node
from tributary.settings.failure import Exit, Failure

_SWITCH = 'echo 1 > "/sys/class/net/$0/threaded"'


def takes_in_by_thread(node: Node, device: str) -> int:
    """Has the kernel take in what comes to a veth device in a thread (Documentation/networking/napi.rst, "Threaded
    NAPI") for as long as the device exists, and not as part of what the sender does; returns the thread's pid.

    Segments pass one by one, as on a wire, and become larger ones where they come in: else veth has no NAPI of its own
    (veth_skb_is_eligible_for_gro() in drivers/net/veth.c). The cable's other end needs the same. Raises Failure: exit
    69 if the thread is not seen.
    """
    node.run("ethtool", "-K", device, "tso", "off", "gro", "on")
    before = _threads(device)
    node.run("sh", "-c", _SWITCH, device)
    made = _threads(device) - before
    if len(made) != 1:
        message = (
            f"{len(made)} new threads napi/{device}-NUMBER in /proc: needed is one, by a kernel with threaded NAPI"
        )
        raise Failure(Exit.UNAVAILABLE, message)
    return made.pop()


def processor_seconds(pids: Sequence[int]) -> float:
    """The processor time of whole processes so far, in seconds, by their clocks (clock_getcpuclockid(3))."""
    return sum(time.clock_gettime(~pid << 3 | 2) for pid in pids)


def _threads(device: str) -> set[int]:
    found = set()
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            name = comm.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        if name.startswith(f"napi/{device}-"):
            found.add(int(comm.parent.name))
    return found
