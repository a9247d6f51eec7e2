"""A link's queue: a shaper that is a little slower than the link, and short. Pure.

The queue of a modem or of a provider is long, and whoever fills it delays everybody. A shaper in front of it, at a rate
that the link surely carries, keeps it empty; packets wait here, where CAKE or FQ-CoDel keeps the queue short and fair
between flows. Of outgoing packets the kernel's WireGuard keeps the hash of the inner flow (wg_reset_packet() in
drivers/net/wireguard/queueing.h), and CAKE uses it if it looks at no hosts and no translated addresses (cake_hash() in
net/sched/sch_cake.c). Of incoming packets, and of wireguard-go's, a whole tunnel is one flow.

    interface         root 5453: egress;  clsact: redirects ingress to
    tributary-inN     root 5453: ingress (an IFB device; N is the link's slot)
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from router.identifiers import IFB_PREFIX
from router.links.model import Link
from tributary.kernel.tc import add_ifb

HANDLE = "5453:"
"""Of owned qdiscs; the throttler's are 5452."""
CHILD = "5454:"
PREFERENCE = 5453
"""Of the owned filter (tc(8), pref)."""

_FRAME = 1514
_BURST = 0.001
"""Seconds of traffic that may leave at once, within the resolution of the kernel's timers."""
_QUEUE = 0.02
"""Seconds of traffic in a queue without active queue management."""


class Kind(StrEnum):
    """Kinds of queues, the best first. The first one that the kernel accepts is used."""

    CAKE = "CAKE"
    FQ_CODEL = "FQ-CoDel"
    SHORT = "a short queue"


@dataclass(frozen=True)
class Shape:
    """A link's rates in bits per second, None for unlimited. ``slot`` from 1."""

    interface: str
    index: int
    slot: int
    download: int | None
    upload: int | None

    @property
    def device(self) -> str:
        """The IFB device for ingress."""
        return f"{IFB_PREFIX}{self.slot}"


@dataclass(frozen=True)
class Queue:
    """What holds a device to a rate, in bytes per second; None if another program has set it to none."""

    kind: Kind
    rate: int | None


@dataclass(frozen=True)
class InstalledQdiscs:
    """What tc(8) shows: devices with an owned queue, with a foreign root qdisc, with an owned redirect."""

    owned: Mapping[str, Queue] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()
    redirected: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SetShape:
    """Replaces a link's qdiscs."""

    shape: Shape


@dataclass(frozen=True)
class ChangeRates:
    """Changes the rates of existing qdiscs."""

    shape: Shape


@dataclass(frozen=True)
class RemoveShape:
    """Removes what is owned on an interface, or an IFB device. It is no error if it does not exist."""

    device: str


ShapingOperation = SetShape | ChangeRates | RemoveShape


def shapes(links: Sequence[Link], rates: Mapping[str, tuple[int | None, int | None]]) -> Iterator[Shape]:
    """For the links that have an interface and ``rates`` (download, upload), by their names."""
    for link in links:
        download, upload = rates.get(link.name, (None, None))
        if link.interface and link.interface.is_up and (download or upload):
            yield Shape(link.interface.name, link.interface.index, link.slot + 1, download, upload)


def diff(
    desired: Sequence[Shape],
    installed_qdiscs: InstalledQdiscs,
    applied: Mapping[str, Shape],
    kind: Kind,
    devices: Collection[str],
) -> Iterator[ShapingOperation]:
    """The operations to the ``desired`` shapes; ``applied`` is the last shape of each interface, by queues of ``kind``,
    ``devices`` are the existing ones.

    An interface with a foreign root qdisc is left alone.
    """
    kept = {name for shape in desired for name in (shape.interface, *([shape.device] if shape.download else []))}
    owned = {
        *installed_qdiscs.owned,
        *installed_qdiscs.redirected,
        *(each for each in devices if each.startswith(IFB_PREFIX)),
    }
    yield from map(RemoveShape, sorted(owned - kept))
    for shape in desired:
        if shape.interface in installed_qdiscs.foreign:
            continue
        last = applied.get(shape.interface)
        if last is None or _without_rates(last) != _without_rates(shape) or not _is_whole(last, installed_qdiscs, kind):
            yield SetShape(shape)
        elif last != shape:
            yield ChangeRates(shape)


def _is_whole(shape: Shape, installed_qdiscs: InstalledQdiscs, kind: Kind) -> bool:
    """Whether it is as it was applied: another program may have removed or changed a part."""
    queues = {name: Queue(kind, rate // 8) for name, rate in _rates(shape)}
    return queues.items() <= installed_qdiscs.owned.items() and (
        not shape.download or shape.interface in installed_qdiscs.redirected
    )


def _without_rates(shape: Shape) -> tuple[object, ...]:
    return shape.interface, shape.index, shape.slot, shape.download is None, shape.upload is None


def command(operation: ShapingOperation, kind: Kind) -> str:
    """The commands in one line."""
    return "; ".join(lines(operation, kind))


def lines(operation: ShapingOperation, kind: Kind) -> list[str]:
    """The commands of ip(8) and tc(8)."""
    match operation:
        case SetShape(shape):
            egress = tree(shape.interface, shape.upload, kind) if shape.upload else []
            return [_remove_root(shape.interface), *egress, *_ingress(shape, kind)]
        case ChangeRates(shape):
            return [f"tc qdisc change dev {name} {_root(kind, rate)}" for name, rate in _rates(shape)]
        case RemoveShape(device) if device.startswith(IFB_PREFIX):
            return [f"ip link delete dev {device}"]
        case RemoveShape(device):
            return [_remove_root(device), _remove_redirect(device)]


def _rates(shape: Shape) -> Iterator[tuple[str, int]]:
    if shape.upload:
        yield shape.interface, shape.upload
    if shape.download:
        yield shape.device, shape.download


def _remove_root(device: str) -> str:
    return f"tc qdisc delete dev {device} root handle {HANDLE}"


def _remove_redirect(device: str) -> str:
    return f"tc filter delete dev {device} ingress pref {PREFERENCE}"


def _ingress(shape: Shape, kind: Kind) -> list[str]:
    before = [_remove_redirect(shape.interface), f"ip link delete dev {shape.device}"]
    if not shape.download:
        return before
    return [
        *before,
        *(f"ip {command}" for command in add_ifb(shape.device)),
        *tree(shape.device, shape.download, kind),
        f"tc qdisc add dev {shape.interface} clsact",
        f"tc filter add dev {shape.interface} ingress pref {PREFERENCE} protocol all u32 match u32 0 0"
        f" action mirred egress redirect dev {shape.device}",
    ]


def tree(device: str, rate: int, kind: Kind) -> list[str]:
    """The qdiscs of one direction."""
    child = [f"tc qdisc add dev {device} parent {HANDLE}1 handle {CHILD} fq_codel"]
    return [f"tc qdisc add dev {device} {_root(kind, rate)}", *(child if kind is Kind.FQ_CODEL else [])]


def _root(kind: Kind, rate: int) -> str:
    if kind is Kind.CAKE:
        # No classes: WireGuard puts no DSCP outside. No hosts, no translation: see above.
        return f"root handle {HANDLE} cake bandwidth {rate}bit besteffort flows nonat"
    # TBF takes GSO packets apart that are longer than its burst (tbf_segment() in net/sched/sch_tbf.c).
    burst = max(2 * _FRAME, int(rate / 8 * _BURST))
    limit = max(10 * _FRAME, int(rate / 8 * _QUEUE))
    return f"root handle {HANDLE} tbf rate {rate}bit burst {burst}b limit {limit}b"
