"""Applies plans to the kernel: nftables, tc and the IFB device. It changes nothing that the throttler did not make."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from throttler.shaping import render
from throttler.shaping.plan import Plan
from throttler.shaping.render import Kernel, Leaf
from throttler.shaping.topology import UPLOAD_DEVICE, Topology
from tributary.kernel import interfaces, nft, process, tc
from tributary.settings.errors import CommandError, Exit

_PROBE_MINOR = 0xFFFF
_PROBES = {Leaf.FQ_CODEL: "fq_codel", Leaf.TBF: "tbf rate 1mbit burst 3028b limit 15140b"}
_ETHERNET_HEADER = 14
_TIMEOUT = 20.0
"""Seconds for one run of a tool: less than the service manager's watchdog waits for the loop."""


def require_tools() -> None:
    """Raise CommandError, exit 69, if nft (which brings libnftables), tc or ip is not there."""
    process.require("nft", "tc", "ip")


def _ip(command: str) -> None:
    process.output(["ip", *command.split()], timeout=_TIMEOUT)


def _roots() -> Iterator[tc.Qdisc]:
    return (qdisc for qdisc in tc.qdiscs() if qdisc.is_root)


def _is_owned(root: tc.Qdisc) -> bool:
    return root.kind == "htb" and root.handle == render.HANDLE


def ensure_no_foreign_qdisc(wanted: Collection[str]) -> None:
    """Raise CommandError, exit 75, if an interface that we need has a foreign root qdisc."""
    for root in _roots():
        if root.interface in wanted and not root.is_default and not _is_owned(root):
            raise CommandError(
                Exit.IN_USE,
                f"interface {root.interface} has the root qdisc {root.kind} {root.handle}, which is not the"
                f" throttler's: remove it first (tc qdisc del dev {root.interface} root)",
            )


def check_roots(devices: Collection[str]) -> None:
    """Raise CommandError, exit 71, if one of these ``devices`` has lost our root qdisc."""
    for root in _roots():
        if root.interface in devices and not _is_owned(root):
            raise CommandError(
                Exit.SYSTEM, f"another program has removed the throttler's root qdisc from {root.interface}"
            )


def remove_leftovers() -> None:
    """Remove everything that a throttler has installed in this network namespace, whatever its policy was.

    What cannot be removed is gathered and raised as one CommandError, with the exit code of the first, when everything
    was tried.
    """
    failures: list[CommandError] = []
    tc.discard_errors()
    with _collected(failures):
        tc.restart()
    with _collected(failures):
        nft.execute(render.no_tables())
    names = [UPLOAD_DEVICE]
    with _collected(failures):
        names += [root.interface for root in _roots() if _is_owned(root)]
    for name in dict.fromkeys(names):
        with _collected(failures):
            _remove_device(name)
    if failures:
        raise CommandError(failures[0].code, "left behind: " + "; ".join(map(str, failures)))


@contextmanager
def _collected(failures: list[CommandError]) -> Iterator[None]:
    try:
        yield
    except CommandError as failure:
        failures.append(failure)


def _remove_device(name: str) -> None:
    """Restore an interface's default qdisc, or remove the IFB device; one that is gone is no error."""
    if name not in interfaces.numbers():
        return
    if name == UPLOAD_DEVICE:
        _ip(f"link del {name}")
    else:
        tc.execute(render.no_root(name))


@contextmanager
def installed(wanted: Topology) -> Iterator[Kernel]:
    """Install ``wanted``, without elements; everything is removed afterwards by ``remove_leftovers``."""
    try:
        yield extend(Topology(), wanted, Kernel())
    finally:
        remove_leftovers()


def extend(before: Topology, after: Topology, kernel: Kernel) -> Kernel:
    """Extend the kernel's topology by links; raises CommandError, exit 71, when a part may be installed.

    Returns the kernel's leaves and frames.
    """
    there = {link.interface for link in after.links if link.is_there}
    # An interface that went away may come back as another one.
    known = {link.interface for link in before.links if link.is_there} & kernel.frames.keys()
    frames = {each: kernel.frames[each] if each in known else _frame(each) for each in there}
    if UPLOAD_DEVICE in after.devices - before.devices:
        for command in tc.add_ifb(UPLOAD_DEVICE):
            _ip(command)
    tc.restart()
    tc.execute(render.roots(before, after))
    leaf = kernel.leaf if before.links or not after.links else _best_leaf(after.links[0].device)
    kernel = Kernel(leaf, frames)
    tc.execute(render.root_classes(before, after, kernel))
    nft.execute(render.tables(before, after))
    return kernel


def _best_leaf(device: str) -> Leaf:
    """The first leaf that the kernel supports, by trying; raises CommandError, exit 69, if it has none."""
    parent = render.class_id(_PROBE_MINOR)
    tc.execute(f"class add dev {device} parent {render.HANDLE} classid {parent} htb rate 1mbit quantum 1514\n")
    try:
        return next(leaf for leaf in Leaf if _has_leaf(leaf, device, parent))
    except StopIteration:
        raise CommandError(Exit.UNAVAILABLE, "the kernel has neither sch_fq_codel nor sch_tbf") from None
    finally:
        tc.execute(f"class del dev {device} classid {parent}\n")


def _has_leaf(leaf: Leaf, device: str, parent: str) -> bool:
    try:
        tc.execute(f"qdisc add dev {device} parent {parent} {_PROBES[leaf]}\n")
    except CommandError:
        return False
    return True


def _frame(interface: str) -> int:
    """Bytes of a full frame as a qdisc counts it: the MTU and an Ethernet header."""
    try:
        return interfaces.mtu(interface) + _ETHERNET_HEADER
    except OSError as error:
        raise CommandError(Exit.UNAVAILABLE, f"the interface {interface} is gone") from error


def apply(plan: Plan, topology: Topology, kernel: Kernel) -> None:
    """Bring ``plan`` into the kernel; raises CommandError, exit 71, when it, or the one before, may be there in
    part.
    """
    tc.execute(render.before_elements(plan, topology, kernel))
    nft.execute(render.elements(plan))
    tc.submit_async(render.after_elements(plan, topology, kernel))
