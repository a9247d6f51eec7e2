"""Applies plans to the kernel: nftables, tc and the IFB device. It changes nothing that the throttler did not make."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from throttler.shaping import render
from throttler.shaping.plan import Element, HtbClass, Plan
from throttler.shaping.render import Kernel, Leaf
from throttler.shaping.topology import UPLOAD_DEVICE, Topology, device
from tributary.daemons.logs import Log
from tributary.kernel import htb, interfaces, nft, process, tc
from tributary.settings.errors import CommandError, Exit
from tributary.settings.privacy import Privacy

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


def _check_roots(devices: Collection[str]) -> None:
    """Raise CommandError, exit 71, if one of these ``devices`` has lost our root qdisc."""
    for root in _roots():
        if root.interface in devices and not _is_owned(root):
            raise CommandError(
                Exit.SYSTEM, f"another program has removed the throttler's root qdisc from {root.interface}"
            )


def _check_gone(missing: Collection[HtbClass]) -> None:
    """Raise CommandError, exit 71, unless each class that is ``missing`` has gone with its interface."""
    # Who watches interfaces does not watch the throttler's own device.
    there = {UPLOAD_DEVICE, *interfaces.numbers()}
    for each in missing:
        if _device(each) in there:
            name = render.class_id(each.minor)
            raise CommandError(Exit.SYSTEM, f"another program has removed the class {name} from {_device(each)}")


def _device(each: HtbClass) -> str:
    return device(each.key.interface, each.key.direction)


def _remove_leftovers() -> None:
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


def _extend(before: Topology, after: Topology, kernel: Kernel) -> Kernel:
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


class StepFailed(Exception):
    """A step could not be applied, or only in part; or other programs have undone what was applied."""

    def __init__(self, failure: CommandError) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.by_others = False


class KernelBackend:
    """Applies plans. ``read`` and ``apply`` raise StepFailed when the kernel may have a part of a step, or of the one
    before.
    """

    def __init__(self, log: Log, privacy: Callable[[], Privacy]) -> None:
        self._log, self._privacy = log, privacy
        self._kernel = Kernel()
        self._topology = Topology()

    @property
    def tables(self) -> list[str]:
        """The nft tables that are to be there."""
        return [render.TABLES[direction] for direction in self._topology.tables]

    @contextmanager
    def installed(self, first: Plan) -> Iterator[None]:
        """The topology of the first plan is installed while the block runs; everything is removed afterwards.

        Raises CommandError, with nothing left behind, if it cannot be installed.
        """
        self._topology = first.topology or Topology()
        ensure_no_foreign_qdisc(self._topology.devices)
        _remove_leftovers()
        try:
            self._kernel = _extend(Topology(), self._topology, Kernel())
            yield
        finally:
            _remove_leftovers()

    def read(self, plan: Plan) -> Iterator[tuple[int, int | None]]:
        """Reads the counters that ``plan`` names: minor numbers, and bytes of IP that the class has sent, None if it is
        not there any more. Call it before ``apply``.

        Once all are read it fails for a class that is gone and should not be: its packets would pass without a limit.
        """
        with _step():
            missing: list[HtbClass] = []
            for each in plan.read:
                found = htb.of_class(_device(each), render.MARK, each.minor)
                if found is None and each not in (*plan.open, *plan.close):
                    missing.append(each)
                yield each.minor, found.ip_bytes if found else None
            if missing:
                _check_gone(missing)

    def apply(self, plan: Plan) -> None:
        with _step():
            if plan.topology is not None:
                _check_roots(self._topology.devices & plan.topology.devices)
                if plan.topology != self._topology:
                    self._kernel = _extend(self._topology, plan.topology, self._kernel)
                    self._topology = plan.topology
            if not plan.is_empty:
                tc.execute(render.before_elements(plan, self._topology, self._kernel))
                nft.execute(render.elements(plan))
                tc.submit_async(render.after_elements(plan, self._topology, self._kernel))
        self._tell("release", plan.remove)
        self._tell("throttle", plan.add)

    def _tell(self, what: str, elements: Iterable[Element]) -> None:
        for element in elements:
            leaf = element.htb
            self._log.event(
                what,
                subflow=str(element.subflow.shown(self._privacy())),
                interface=leaf.key.interface,
                direction=str(leaf.key.direction),
                rule=leaf.key.owner.rule,
                **{"class": render.class_id(leaf.minor)},
            )


@contextmanager
def _step() -> Iterator[None]:
    try:
        yield
    except CommandError as failure:
        raise StepFailed(failure) from failure
