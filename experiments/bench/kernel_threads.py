"""Threads of the kernel that work for connections: so the processor time for packets can be told from all other."""

from contextlib import suppress
from pathlib import Path

from experiments.testbed.node import Node
from tributary.settings.errors import CommandError, Exit

_SWITCH = 'echo 1 > "/sys/class/net/$0/threaded"'


def takes_in_by_thread(node: Node, device: str) -> int:
    """Has the kernel take in what comes to a veth device in a thread (Documentation/networking/napi.rst, "Threaded
    NAPI") for as long as the device exists, and not as part of what the sender does; returns the thread's pid.

    Segments pass one by one, as on a wire, and become larger ones where they come in: else veth has no NAPI of its own
    (veth_skb_is_eligible_for_gro() in drivers/net/veth.c). The cable's other end needs the same. Raises CommandError:
    exit 69 if the thread is not seen.
    """
    node.run("ethtool", "-K", device, "tso", "off", "gro", "on")
    ours = f"napi/{device}-"
    before = _threads(ours)
    node.run("sh", "-c", _SWITCH, device)
    made = _threads(ours) - before
    if len(made) != 1:
        message = (
            f"{len(made)} new threads napi/{device}-NUMBER in /proc: needed is one, by a kernel with threaded NAPI"
        )
        raise CommandError(Exit.UNAVAILABLE, message)
    return made.pop()


def _threads(beginning: str) -> set[int]:
    found = set()
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            if comm.read_text().startswith(beginning):
                found.add(int(comm.parent.name))
    return found
