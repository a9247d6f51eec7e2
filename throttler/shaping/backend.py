"""Applies plans to the kernel: nftables, tc and the IFB device. It changes nothing that the throttler did not make."""

import fcntl
import json
import shutil
import socket
import struct
import subprocess
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from throttler.shaping import nftables, render, tc
from throttler.shaping.plan import Plan
from throttler.shaping.render import Kernel, Leaf
from throttler.shaping.topology import UPLOAD_DEVICE, Topology
from tributary.settings.errors import CommandError, Exit

_NO_HANDLE = "0:"
"""Of a qdisc that the kernel attached by itself (tc(8), QDISCS)."""
_PROBE_MINOR = 0xFFFF
_PROBES = {Leaf.FQ_CODEL: "fq_codel", Leaf.TBF: "tbf rate 1mbit burst 3028b limit 15140b"}
_ETHERNET_HEADER = 14
_SIOCGIFMTU = 0x8921  # linux/sockios.h
_TIMEOUT = 20
"""Seconds for one run of a tool: less than the service manager's watchdog waits for the loop."""


def require_tools() -> None:
    """Raise CommandError, exit 69, if nft (which brings libnftables), tc or ip is not there."""
    for tool, package in (("nft", "nftables"), ("tc", "iproute2"), ("ip", "iproute2")):
        if shutil.which(tool) is None:
            raise CommandError(Exit.UNAVAILABLE, f"{tool} is not in PATH: install the package {package}")


def interfaces() -> frozenset[str]:
    """The names of this network namespace's interfaces."""
    return frozenset(name for _, name in socket.if_nameindex())


def _run(*command: str) -> str:
    try:
        # In a process group of its own, so that Ctrl-C in a terminal does not end it half-way.
        result = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, process_group=0, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise CommandError(Exit.SYSTEM, f"{' '.join(command)}: {error}") from error
    if result.returncode != 0:
        reason = "; ".join(line.strip() for line in result.stderr.splitlines() if line.strip())
        raise CommandError(Exit.SYSTEM, f"{' '.join(command)}: {reason or f'exit code {result.returncode}'}")
    return result.stdout


@dataclass(frozen=True)
class Root:
    """The qdisc at an interface's root."""

    interface: str
    kind: str
    handle: str

    @property
    def is_owned(self) -> bool:
        """Whether it is a throttler's."""
        return self.kind == "htb" and self.handle == render.HANDLE


def roots() -> tuple[Root, ...]:
    """The root qdiscs of all interfaces."""
    found = json.loads(_run("tc", "-json", "qdisc", "show") or "[]")
    return tuple(Root(entry["dev"], entry["kind"], entry["handle"]) for entry in found if entry.get("root"))


def ensure_no_foreign_qdisc(wanted: Collection[str]) -> None:
    """Raise CommandError, exit 75, if an interface that we need has a foreign root qdisc."""
    for root in roots():
        if root.interface in wanted and root.handle != _NO_HANDLE and not root.is_owned:
            raise CommandError(
                Exit.IN_USE,
                f"interface {root.interface} has the root qdisc {root.kind} {root.handle}, which is not the"
                f" throttler's: remove it first (tc qdisc del dev {root.interface} root)",
            )


def check_roots(devices: Collection[str]) -> None:
    """Raise CommandError, exit 71, if one of these ``devices`` has lost our root qdisc."""
    for root in roots():
        if root.interface in devices and not root.is_owned:
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
        nftables.execute(render.no_tables())
    names = [UPLOAD_DEVICE]
    with _collected(failures):
        names += [root.interface for root in roots() if root.is_owned]
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
    if name not in interfaces():
        return
    if name == UPLOAD_DEVICE:
        _run("ip", "link", "del", name)
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
        # One transmit queue: packets of one class stay in order.
        _run("ip", "link", "add", UPLOAD_DEVICE, "numtxqueues", "1", "numrxqueues", "1", "type", "ifb")
        _run("ip", "link", "set", UPLOAD_DEVICE, "up")
    tc.restart()
    tc.execute(render.roots(before, after))
    leaf = kernel.leaf if before.links or not after.links else _best_leaf(after.links[0].device)
    kernel = Kernel(leaf, frames)
    tc.execute(render.root_classes(before, after, kernel))
    nftables.execute(render.tables(before, after))
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
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            # struct ifreq of netdevice(7): the name, then a union of 24 bytes. /sys may show another network namespace.
            answer = fcntl.ioctl(any_socket, _SIOCGIFMTU, struct.pack("16s24x", interface.encode()))
        except OSError as error:
            raise CommandError(Exit.UNAVAILABLE, f"the interface {interface} is gone") from error
    return int(struct.unpack("16xi20x", answer)[0]) + _ETHERNET_HEADER


def apply(plan: Plan, topology: Topology, kernel: Kernel) -> None:
    """Bring ``plan`` into the kernel; raises CommandError, exit 71, when it, or the one before, may be there in
    part.
    """
    tc.execute(render.before_elements(plan, topology, kernel))
    nftables.execute(render.elements(plan))
    tc.submit_async(render.after_elements(plan, topology, kernel))
