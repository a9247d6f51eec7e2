"""What a link's packets wait in: a queue of ours that is a little slower than the link, and short. Pure.

The queue of a modem or of a provider is long, and whoever fills it makes everybody wait. A shaper in front of it, at
a rate that the link surely carries, keeps it empty; what waits, waits here, where CAKE or FQ-CoDel keeps it short and
takes turns between flows. Of packets that leave, the kernel's WireGuard keeps the hash of the flow inside
(wg_reset_packet() in drivers/net/wireguard/queueing.h), and CAKE goes by it where it looks at no hosts and no
translated addresses (cake_hash() in net/sched/sch_cake.c). Of packets that come in, and of wireguard-go's, a whole
tunnel is one flow.

    interface         root 5453: what leaves;  clsact: what comes in is led to
    tributary-inN     root 5453: what comes in, behind it (an IFB device; N is the link's place)
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from router.links import Link
from router.ours import SHAPED

HANDLE = "5453:"
"""Of our qdiscs; the throttler's are 5452."""
_CHILD = "5454:"
PREFERENCE = 5453
"""Of our filter (tc(8), pref)."""

_FRAME = 1514
_BURST = 0.001
"""Seconds: what may leave at once, so that a timer of the kernel suffices for it."""
_QUEUE = 0.02
"""Seconds that a queue without anybody to keep it short may hold."""


class Kind(StrEnum):
    """How packets are kept waiting, the best first; which one the kernel has is found by trying."""

    CAKE = "CAKE"
    FQ_CODEL = "FQ-CoDel"
    SHORT = "a short queue"


@dataclass(frozen=True)
class Shape:
    """What a link gets: rates in bits per second, None for as fast as it goes. ``place`` from 1."""

    interface: str
    index: int
    place: int
    download: int | None
    upload: int | None

    @property
    def device(self) -> str:
        """Of what comes in."""
        return f"{SHAPED}{self.place}"


@dataclass(frozen=True)
class Stands:
    """What tc(8) shows: devices with a root qdisc of ours, with one of somebody else's, with a filter of ours."""

    ours: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()
    led: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SetShape:
    """Put a link's qdiscs there, in place of those that are."""

    shape: Shape


@dataclass(frozen=True)
class ChangeRates:
    """Have the qdiscs that stand go by other rates."""

    shape: Shape


@dataclass(frozen=True)
class RemoveShape:
    """Take away what is ours of an interface or of an IFB device; that it is gone is no error."""

    device: str


ShapingStep = SetShape | ChangeRates | RemoveShape


def shapes(links: Sequence[Link], rates: Mapping[str, tuple[int | None, int | None]]) -> Iterator[Shape]:
    """For the links that have an interface and ``rates``, by their names: downloads and uploads."""
    for link in links:
        download, upload = rates.get(link.name, (None, None))
        if link.interface and link.interface.is_up and (download or upload):
            yield Shape(link.interface.name, link.interface.index, link.place + 1, download, upload)


def difference(
    wanted: Sequence[Shape], stands: Stands, given: Mapping[str, Shape], devices: Collection[str]
) -> Iterator[ShapingStep]:
    """The steps to what is ``wanted``; ``given`` is what each interface got last, ``devices`` are those that are there.

    An interface with a root qdisc of somebody else's is left as it is.
    """
    kept = {name for shape in wanted for name in (shape.interface, *([shape.device] if shape.download else []))}
    ours = {*stands.ours, *stands.led, *(each for each in devices if each.startswith(SHAPED))}
    yield from map(RemoveShape, sorted(ours - kept))
    for shape in wanted:
        if shape.interface in stands.foreign:
            continue
        last = given.get(shape.interface)
        if last is None or not _is_whole(shape, stands) or _without_rates(last) != _without_rates(shape):
            yield SetShape(shape)
        elif last != shape:
            yield ChangeRates(shape)


def _is_whole(shape: Shape, stands: Stands) -> bool:
    sends = not shape.upload or shape.interface in stands.ours
    return sends and (not shape.download or ({shape.device} <= stands.ours and {shape.interface} <= stands.led))


def _without_rates(shape: Shape) -> tuple[object, ...]:
    return shape.interface, shape.index, shape.place, shape.download is None, shape.upload is None


def command(step: ShapingStep, kind: Kind) -> str:
    """The commands that do it, in a line."""
    return "; ".join(lines(step, kind))


def lines(step: ShapingStep, kind: Kind) -> list[str]:
    """The commands of ip(8) and tc(8)."""
    match step:
        case SetShape(shape):
            return [*_leaving(shape, kind), *_coming(shape, kind)]
        case ChangeRates(shape):
            return [f"tc qdisc change dev {name} {_root(kind, rate)}" for name, rate in _rates(shape)]
        case RemoveShape(device) if device.startswith(SHAPED):
            return [f"ip link delete dev {device}"]
        case RemoveShape(device):
            return [*_removing(device), _unleading(device)]


def _rates(shape: Shape) -> Iterator[tuple[str, int]]:
    if shape.upload:
        yield shape.interface, shape.upload
    if shape.download:
        yield shape.device, shape.download


def _removing(device: str) -> list[str]:
    return [f"tc qdisc delete dev {device} root handle {HANDLE}"]


def _unleading(device: str) -> str:
    return f"tc filter delete dev {device} ingress pref {PREFERENCE}"


def _leaving(shape: Shape, kind: Kind) -> list[str]:
    return [*_removing(shape.interface), *(tree(shape.interface, shape.upload, kind) if shape.upload else [])]


def _coming(shape: Shape, kind: Kind) -> list[str]:
    before = [_unleading(shape.interface), f"ip link delete dev {shape.device}"]
    if not shape.download:
        return before
    return [
        *before,
        # One queue, so that packets stay in order.
        f"ip link add name {shape.device} numtxqueues 1 numrxqueues 1 type ifb",
        f"ip link set dev {shape.device} up",
        *tree(shape.device, shape.download, kind),
        f"tc qdisc add dev {shape.interface} clsact",
        f"tc filter add dev {shape.interface} ingress pref {PREFERENCE} protocol all u32 match u32 0 0"
        f" action mirred egress redirect dev {shape.device}",
    ]


def tree(device: str, rate: int, kind: Kind) -> list[str]:
    """The qdiscs of one direction."""
    child = [f"tc qdisc add dev {device} parent {HANDLE}1 handle {_CHILD} fq_codel"]
    return [f"tc qdisc add dev {device} {_root(kind, rate)}", *(child if kind is Kind.FQ_CODEL else [])]


def _root(kind: Kind, rate: int) -> str:
    if kind is Kind.CAKE:
        # No classes: WireGuard puts no DSCP outside. No hosts, no translation: see above.
        return f"root handle {HANDLE} cake bandwidth {rate}bit besteffort flows nonat"
    # TBF takes GSO packets apart that are longer than its burst (tbf_segment() in net/sched/sch_tbf.c).
    burst = max(2 * _FRAME, int(rate / 8 * _BURST))
    limit = max(10 * _FRAME, int(rate / 8 * _QUEUE))
    return f"root handle {HANDLE} tbf rate {rate}bit burst {burst}b limit {limit}b"


@dataclass
class Given:
    """What interfaces got last, by their names; unknown of those that a daemon before this one set."""

    shapes: dict[str, Shape] = field(default_factory=dict)

    def note(self, step: ShapingStep) -> None:
        """The step was carried out."""
        if isinstance(step, RemoveShape):
            self.shapes.pop(step.device, None)
        else:
            self.shapes[step.shape.interface] = step.shape
