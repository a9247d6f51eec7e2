"""Short transfers over a long path, with 1 to 3 native converters on it, and without any.

    client --- proxy1 --- proxy2 --- proxy3 --- server      100 Mbit/s, 100 ms in all, split evenly

Derived: from connect(2) to the first byte of the answer and to its last, medians of several transfers of each size,
also on the same segments with nobody on the path. With R for the whole round-trip time and r for that of
one of the segments, a transfer takes R for its request and answer; for the handshake r if each proxy forwards the SYN
at once, R if each waits for the handshake before, and nothing by 0-RTT Convert (RFC 8803), whose SYNs bring the request
along; and r for every further round of the sender's slow start, which begins with ten segments (RFC 6928), since each
proxy acknowledges what it takes. Expected: what this model says, which for the first byte allows 25, 33.3 and 37.5 %
with early SYN forwarding, and half with 0-RTT Convert; and a round more at the edge of a round, as 100 kB are of three:
a proxy's window does not grow while it waits for data (RFC 7661), and what it forwards does not fill all segments.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from matplotlib.figure import Figure

from experiments.plots import line, name_axes, theory
from experiments.study.blueprint import Ground, Standing
from experiments.study.experiment import Count, Experiment, Sizes
from experiments.study.metrics import Metric
from experiments.study.plot import resize
from experiments.study.readings import Estimate, Point, Reading, Readings, Repeated, Verdict, at_least, at_most, every
from experiments.testbed import native
from experiments.testbed.chain import PORT, By, Chain, split, standing_chain
from experiments.testbed.links import emulation
from experiments.testbed.selfcheck import check_link
from experiments.testbed.server import start_origin
from experiments.testbed.topology import Link, Profile, Topology
from tributary.settings.units import Size

_PROXIES = (1, 2, 3)
ORIGIN = f"{Topology.SERVER4}:{PORT}"
_FIRST_WINDOW = 10 * 1448  # bytes: RFC 6928, with timestamps
_FIRST_BYTE = {1: 25.0, 2: 33.3, 3: 37.5}
_OWN = 0.8
"""Points of these that a converter's own time may take: 1.6 ms of 200. On a Xeon it is 0.6, on an EPYC up to that."""
_ROUNDS = 1.2
"""Of slow start that a transfer may take more than by the model, with its time at the converters."""
_WHOLE = {1: 33.0, 2: 44.0, 3: 49.0}
_ROUNDED = 0.5
"""The paper has whole per cents of these: what rounds to them holds."""
_SHORT = Size(25_000)
_COLOURS = {1: "#0072B2", 2: "#E69F00", 3: "#009E73"}
_NOBODY = "#555555"


def segments(links: tuple[Link, ...]) -> Ground[Chain]:
    """A chain over ``links`` in a row, with a proxy between any two."""

    @contextmanager
    def stands(name: str, seed: int, tolerance: float) -> Iterator[Standing[Chain]]:
        with standing_chain(name, links, seed) as chain:
            measured = [
                reading
                for segment, left, right in zip(chain.segments, chain.nodes, chain.nodes[1:], strict=False)
                for reading in check_link(segment, left, right, tolerance=tolerance)
            ]
            start_origin(chain.server, f"0.0.0.0:{PORT}")
            yield Standing(chain, measured, emulation(*links))

    return Ground({"proxies": len(links) - 1, "round_trip_ms": 1000 * sum(link.rtt for link in links)}, stands)


class TransferExperiment(Experiment):
    """``size``: of the transfers; ``count``: of each size, one after the other."""

    over = "long-path.toml"

    size: Sizes = tuple(Size(1000 * kilobytes) for kilobytes in (10, 25, 50, 100, 250, 500))
    count: Count = 7

    def measure(self, chain: Chain, point: Point, repetition: int) -> Reading:
        """Medians for each size in kB: ``first_byte_ms_SIZE``, ``whole_ms_SIZE``."""
        return Reading(point, repetition, transfers(chain, By(point["by"]), self.size, self.count))


class Acceleration(TransferExperiment):
    """Each number of proxies, by each way and without."""

    paper = "Miniproxy, figure 4"
    claim = "1, 2, 3 proxies with early SYN forwarding bring the first byte 25, 33.3, 37.5 % sooner."
    expected = "What round-trip times and slow start alone make of it."
    quick = {"repeat": 1, "count": 3, "size": "10kB,25kB,500kB"}
    any_links = True
    at = every(proxies=_PROXIES, by=(by.value for by in By))

    def blueprint(self, profile: Profile, point: Point) -> Ground[Chain]:
        return segments(split(Topology.of(profile).links[0], int(point["proxies"]) + 1))

    def judge(self, topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for proxies in _PROXIES:
            yield from self._verdicts(topology.links[0], readings.at(proxies=str(proxies)), proxies)

    def _verdicts(self, link: Link, readings: Readings, proxies: int) -> Iterator[Verdict]:
        taken = {by: readings.at(by=by.value) for by in By}
        through = "1 proxy" if proxies == 1 else f"{proxies} proxies"
        kilobytes = [size.amount // 1000 for size in self.size]
        first_byte, possible = f"first_byte_ms_{kilobytes[0]}", _FIRST_BYTE[proxies]
        claim = f"the first byte comes {possible:g} % sooner through {through}, but for their own time"
        yield at_least(claim, gain(taken[By.DIRECT], taken[By.EARLY], first_byte), possible - _OWN * proxies, "%")
        claim = f"0-RTT Convert brings it sooner than {possible:g} %, through {through}"
        yield at_least(claim, gain(taken[By.DIRECT], taken[By.ZERO_RTT], first_byte), possible, "%")
        if _SHORT in self.size:
            claim = f"25 kB come {_WHOLE[proxies]:g} % sooner through {through}"
            yield at_least(
                claim, gain(taken[By.DIRECT], taken[By.EARLY], "whole_ms_25"), _WHOLE[proxies] - _ROUNDED, "%"
            )
        for by in By:
            model = Model(link, proxies, by)
            over = [_rounds_over(taken[by], model, size) for size in kilobytes]
            claim = f"no size takes over a round of slow start longer than by the model ({through}, {by.value})"
            yield at_most(claim, max(over, key=lambda each: each.mean), _ROUNDS, "rounds")

    def metrics(self, readings: Readings) -> list[Metric]:
        """``ttfb_gain_pct_N`` and ``ttc25_gain_pct_N``: by how many per cent the first byte, and all of 25 kB, come
        sooner through N converters than over the same segments alone, by early SYN forwarding. ``ttfb_gain_late_pct_N``
        and so on: where each converter connects when the handshake before it has ended; ``..._0rtt_...``: by 0-RTT
        Convert.
        """
        return [
            Metric(
                f"{name}{end}_pct_{proxies}",
                [*gain(these.at(by="direct"), these.at(by=by.value), value).numbers.values()],
            )
            for proxies in _PROXIES
            for these in [readings.at(proxies=str(proxies))]
            for by, end in ((By.EARLY, ""), (By.LATE, "_late"), (By.ZERO_RTT, "_0rtt"))
            for name, value in (("ttfb_gain", "first_byte_ms_10"), ("ttc25_gain", "whole_ms_25"))
        ]

    def draw(self, figure: Figure, topology: Topology, readings: Readings) -> None:
        resize(figure, 10, 4.5)
        sizes = sizes_in(readings)
        panels = figure.subplots(1, 2)
        for axes, kind, title in zip(panels, ("first_byte", "whole"), ("first byte", "last byte"), strict=True):
            for proxies, by, label, colour, marker in _lines():
                taken, model = readings.at(by=by.value, proxies=str(proxies)), Model(topology.links[0], proxies, by)
                found = {size: taken.estimate(f"{kind}_ms_{size}") for size in sizes}
                line(axes, found, label, color=colour, marker=marker)
                expected = {
                    size: model.first_byte if kind == "first_byte" else model.whole(1000 * size) for size in sizes
                }
                theory(axes, expected, colour)
            below = "size, kB (dotted: the model)"
            name_axes(axes, below, f"ms to the {title}", legend=axes is panels[0], log=sizes)


def transfers(chain: Chain, by: By, sizes: Sequence[Size], count: int) -> dict[str, float]:
    """What ``timed`` takes of so many transfers of each size, with proxies that come to them in that way."""
    with chain.converting(by):
        return timed(chain, sizes, count, ORIGIN, chain.convert(1) if by is By.ZERO_RTT else None)


def timed(chain: Chain, sizes: Sequence[Size], count: int, to: str, converter: str | None = None) -> dict[str, float]:
    """Medians for each size in kB, ``first_byte_ms_SIZE`` and ``whole_ms_SIZE``, of transfers ``to`` an address and
    port, as the chain is now, or as ``converter`` does it.
    """
    asked = ["--via-convert", converter] if converter else []
    command = native.load("transfers", "--to", to, "--count", str(count), *asked)
    taken = chain.client.told(*command, *(str(size.amount) for size in sizes))
    values: dict[str, float] = {}
    for size, times in taken.items():
        firsts, wholes = zip(*times, strict=True)
        kilobytes = int(size) // 1000
        values |= {f"first_byte_ms_{kilobytes}": median(firsts), f"whole_ms_{kilobytes}": median(wholes)}
    return values


@dataclass(frozen=True)
class Model:
    """What a transfer takes, in milliseconds, over ``link`` with so many ``proxies``, by the module's reasoning."""

    link: Link
    proxies: int
    by: By

    @property
    def round(self) -> float:
        """Of slow start."""
        whole = 1000 * self.link.rtt
        return whole if self.by is By.DIRECT else whole / (self.proxies + 1)

    @property
    def first_byte(self) -> float:
        whole = 1000 * self.link.rtt
        handshake = {By.EARLY: self.round, By.ZERO_RTT: 0.0}.get(self.by, whole)
        return whole + handshake

    def whole(self, size: float) -> float:
        """To the last of ``size`` bytes."""
        sending = 8000 * size / self.link.down.rate.amount
        return self.first_byte + self.round * (_rounds(size) - 1) + sending


def _rounds(size: float) -> int:
    """Of slow start, in which the window doubles, until all is sent."""
    rounds, window, sent = 0, _FIRST_WINDOW, 0
    while sent < size:
        rounds, sent, window = rounds + 1, sent + window, 2 * window
    return rounds


def _rounds_over(taken: Readings, model: Model, size: int) -> Estimate:
    """How many rounds of slow start longer than by the ``model`` so many kB took."""
    expected = model.whole(1000 * size)
    return taken.each(lambda reading: (reading.values[f"whole_ms_{size}"] - expected) / model.round).estimate


def gain(direct: Readings, through: Readings, value: str) -> Repeated:
    """By how many per cent ``value`` is shorter, repetition by repetition."""
    both = direct.repeated(value), through.repeated(value)
    return Repeated.of(lambda without, ours: 100 * (1 - ours / without), *both)


def sizes_in(readings: Readings) -> list[int]:
    """Of transfers, in kB."""
    return sorted({int(name.rpartition("_")[2]) for reading in readings for name in reading.values if "_ms_" in name})


def _lines() -> Iterator[tuple[int, By, str, str, str]]:
    yield 1, By.DIRECT, "no proxy", _NOBODY, "o"
    for proxies, colour in _COLOURS.items():
        yield proxies, By.EARLY, f"{proxies}, early SYN", colour, "o"
    yield 3, By.ZERO_RTT, "3, 0-RTT Convert", "#CC79A7", "s"
