"""The one door to the kernel: nftables and tc, and changes nothing that the throttler did not make."""

import fcntl
import json
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from settings.failure import Exit, Failure
from throttler.shaping import nftables, render
from throttler.shaping.plan import Plan
from throttler.shaping.render import Leaf, Link

_NO_HANDLE = "0:"
"""Of a qdisc that the kernel attached by itself (tc(8), QDISCS)."""
_PROBE_MINOR = 0xFFFF
_PROBES = {Leaf.FQ_CODEL: "fq_codel", Leaf.TBF: "tbf rate 1mbit burst 3028b limit 15140b"}
_ETHERNET_HEADER = 14
_SIOCGIFMTU = 0x8921  # linux/sockios.h
_PATIENCE = 60
"""Seconds for one run of tc."""


def need_tools() -> None:
    """Raise Failure, exit 69, if nft (which brings libnftables) or tc is not there."""
    for tool, package in (("nft", "nftables"), ("tc", "iproute2")):
        if shutil.which(tool) is None:
            raise Failure(Exit.UNAVAILABLE, f"{tool} is not in PATH: install the package {package}")


def interfaces() -> frozenset[str]:
    """The names of this network namespace's interfaces."""
    return frozenset(name for _, name in socket.if_nameindex())


def nft(script: str) -> None:
    """Carry out a script for ``nft -f -``, all of it or nothing; raises Failure, exit 71."""
    if script:
        nftables.carry_out(script)


def tc(lines: str) -> None:
    """Carry out ``lines`` up to the first that fails; raises Failure, exit 71."""
    if lines:
        _run(("tc", "-batch", "-"), lines)


def _run(command: Sequence[str], text: str = "") -> str:
    try:
        # In a process group of its own, so that Ctrl-C in a terminal does not end it half-way.
        result = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=_PATIENCE, process_group=0, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Failure(Exit.SYSTEM, f"{' '.join(command)}: {error}") from error
    if result.returncode != 0:
        reason = "; ".join(line.strip() for line in result.stderr.splitlines() if line.strip())
        raise Failure(Exit.SYSTEM, f"{' '.join(command)}: {reason or f'exit code {result.returncode}'}")
    return result.stdout


@dataclass(frozen=True)
class Root:
    """The qdisc at an interface's root."""

    interface: str
    kind: str
    handle: str

    @property
    def is_ours(self) -> bool:
        """Whether a throttler put it there."""
        return self.kind == "htb" and self.handle == render.HANDLE


def roots() -> tuple[Root, ...]:
    """The root qdiscs of all interfaces."""
    found = json.loads(_run(("tc", "-json", "qdisc", "show")) or "[]")
    return tuple(Root(entry["dev"], entry["kind"], entry["handle"]) for entry in found if entry.get("root"))


def refuse_foreign(wanted: Sequence[str]) -> None:
    """Raise Failure, exit 75, if someone else has put a qdisc at the root of an interface that we need."""
    for root in roots():
        if root.interface in wanted and root.handle != _NO_HANDLE and not root.is_ours:
            raise Failure(
                Exit.IN_USE,
                f"interface {root.interface} has the root qdisc {root.kind} {root.handle}, which is not the"
                f" throttler's: remove it first (tc qdisc del dev {root.interface} root)",
            )


def remove_leftovers() -> None:
    """Remove what a killed throttler left in this network namespace, whatever its policy was."""
    nft(render.no_table())
    tc(render.no_roots(root.interface for root in roots() if root.is_ours))


@contextmanager
def installed(wanted: Sequence[str]) -> Iterator[Mapping[str, Link]]:
    """An HTB at the root of each interface and the nft table without elements; all is gone afterwards.

    Gives what classes on each interface depend on. Errors while it is taken down are gathered and raised as one
    Failure, exit 71, when everything was tried.
    """
    errors: list[str] = []
    with ExitStack() as stack:
        stack.callback(_raise_gathered, errors)
        for interface in wanted:
            tc(render.roots([interface]))
            stack.callback(_gather, errors, _remove_root, interface)
        stack.callback(_gather, errors, nft, render.no_table())
        nft(render.table())
        leaf = _best_leaf(wanted[0])
        yield {interface: Link(leaf, _frame(interface)) for interface in wanted}


def _remove_root(interface: str) -> None:
    if interface in interfaces():
        tc(render.no_roots([interface]))


def _gather(errors: list[str], act: Callable[[str], None], text: str) -> None:
    try:
        act(text)
    except Failure as failure:
        errors.append(str(failure))


def _raise_gathered(errors: list[str]) -> None:
    if errors:
        raise Failure(Exit.SYSTEM, "left behind: " + "; ".join(errors))


def _best_leaf(interface: str) -> Leaf:
    """The first leaf that the kernel has, found by trying; raises Failure, exit 69, if it has none."""
    parent = render.class_id(_PROBE_MINOR)
    tc(f"class add dev {interface} parent {render.HANDLE} classid {parent} htb rate 1mbit quantum 1514\n")
    try:
        return next(leaf for leaf in Leaf if _has_leaf(leaf, interface, parent))
    except StopIteration:
        raise Failure(Exit.UNAVAILABLE, "the kernel has neither sch_fq_codel nor sch_tbf") from None
    finally:
        tc(f"class del dev {interface} classid {parent}\n")


def _has_leaf(leaf: Leaf, interface: str, parent: str) -> bool:
    try:
        tc(f"qdisc add dev {interface} parent {parent} {_PROBES[leaf]}\n")
    except Failure:
        return False
    return True


def _frame(interface: str) -> int:
    """Bytes of a full frame as a qdisc counts it: the MTU and an Ethernet header."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        # struct ifreq of netdevice(7): the name, then a union of 24 bytes. /sys may show another network namespace.
        answer = fcntl.ioctl(any_socket, _SIOCGIFMTU, struct.pack("16s24x", interface.encode()))
    return int(struct.unpack("16xi20x", answer)[0]) + _ETHERNET_HEADER


def carry_out(plan: Plan, links: Mapping[str, Link]) -> None:
    """Bring ``plan`` into the kernel; raises Failure, exit 71, when it may be there in part."""
    tc(render.classes(plan, links))
    nft(render.elements(plan))
    tc(render.no_classes(plan))
