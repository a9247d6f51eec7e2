"""MPTCP over many pairs of links, and some of three: is it ever slower than the best link alone?

    client ==first==== gateway ---- server     50 Mbit/s, 20 ms, no loss
           ==second===                         rate, round-trip time and loss vary
           ==third====                         20 Mbit/s, 40 ms, no loss; in some

Derived: throughput behind slow start by the converter, with the appliance's kernel settings and with the kernel's
own, beside legacy TCP over each link in the same run, as a share of the best one and of their sum. Expected: no less
than the best link anywhere. A second link that loses or is slow can hold the first one up where a buffer is too small:
the sender's, which keeps what the slow path has not acknowledged, or the receiver's, which waits for it. The
appliance's settings give room for both (kernel-config/90-tributary.conf), for the sender's with measure: what is given
to a path stays with it, also when that path is cut or throttled. Where a path loses much and is long, that can be too
little. Pairs with loss are tried with send buffers that begin with 8 MB as well, to see whether that is the cause.
"""

from collections.abc import Iterator

from matplotlib.figure import Figure
from pydantic import Field

from experiments.plots import tidy
from experiments.scenarios.downloads import LEGACY, TimedExperiment
from experiments.study.blueprint import CONVERTERS, TestbedBlueprint
from experiments.study.experiment import Durations, Rates, Shares
from experiments.study.plot import resize
from experiments.study.readings import Point, Readings, Repeated, Verdict, at_least, every, name_of
from experiments.testbed.topology import LinkSettings, Profile, Topology
from tributary.settings.units import Duration, PositiveRate, Share

_KEYS = ("links", "rate", "rtt", "loss")
_FIRST, _SECOND, _THIRD = "first", "second", "third"
_APPLIANCE, _KERNEL, _AMPLE = "appliance", "kernel", "ample"
"""Kernel settings: the appliance's, the kernel's own, and the appliance's with a larger send buffer to begin with."""

_AMPLE_BUFFER = 8_388_608  # bytes
_LEAST = 0.95  # of the best single link
_PACKET = 1500 * 8  # bits
_LEAST_QUEUE = 20  # packets


class Grid(TimedExperiment):
    """What the second link is like, in all combinations; with ``three`` a third link joins the hardest of them."""

    claim = "Through the converter a client is never slower than over its best link alone."
    expected = "95 % of the best link or more everywhere, with the appliance's kernel settings."
    over = "grid.toml"
    quick = {"repeat": 1, "seconds": 5.0, "rate": "50mbit", "rtt": "200ms", "loss": "0%,1%"}

    rate: Rates = (PositiveRate(5_000_000), PositiveRate(50_000_000))
    rtt: Durations = (Duration(20_000), Duration(200_000))
    loss: Shares = (Share(0), Share(10_000))
    three: bool = Field(default=True, description="true or false")

    @property
    def _pairs(self) -> list[Point]:
        """The circumstances without who measures in them."""
        pairs = every(links=["2"], rate=self.rate, rtt=self.rtt, loss=self.loss)
        hardest = every(links=["3"], rate=[max(self.rate)], rtt=[max(self.rtt)], loss=[max(self.loss)])
        return pairs + (hardest if self.three else [])

    def points(self, _topology: Topology) -> list[Point]:
        """Legacy TCP over each link and MPTCP by each converter; and by one of them with the kernel's own settings."""
        return [{**pair, **who, "family": "ipv4"} for pair in self._pairs for who in _who(pair)]

    def blueprint(self, profile: Profile, point: Point) -> TestbedBlueprint:
        rate, rtt, loss = PositiveRate.parse(point["rate"]), Duration.parse(point["rtt"]), Share.parse(point["loss"])
        queue = max(_LEAST_QUEUE, round(rate.amount * rtt.seconds / _PACKET))
        second = LinkSettings(rate=rate, delay=Duration(rtt.amount // 2), loss=loss, queue=queue)
        links = {_FIRST: profile.links[_FIRST], _SECOND: second}
        if point["links"] == "3":
            links[_THIRD] = profile.links[_THIRD]
        sysctls = {"net.ipv4.tcp_wmem": f"4096 {_AMPLE_BUFFER} 16777216"} if point["settings"] == _AMPLE else {}
        return TestbedBlueprint(Profile(links=links), point["settings"] != _KERNEL, sysctls)

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for pair in self._pairs:
            yield from _against_the_best(pair, readings.at(**pair))
        yield self._against_the_kernel(readings)

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        found = ({key: each.point[key] for key in _KEYS} for each in readings)
        pairs = list({name_of(pair): pair for pair in found}.values())
        resize(figure, 10, 1.5 + 0.35 * len(pairs))
        axes = figure.subplots()
        shown = {
            "native, appliance's settings": ("native", _APPLIANCE, "black", "o"),
            "native, 8 MB to begin with": ("native", _AMPLE, "#0072B2", "+"),
            "native, kernel's settings": ("native", _KERNEL, "#D55E00", "x"),
            "squid, appliance's settings": ("squid", _APPLIANCE, "#999999", "s"),
        }
        alone = [[link.estimate.mean for link in _alone(readings.at(**pair))] for pair in pairs]
        places = range(len(pairs))
        axes.scatter(
            [sum(each) / each[0] for each in alone], places, marker="|", s=200, color="#009E73", label="the sum"
        )
        for label, (by, settings, colour, marker) in shown.items():
            tried = [(place, readings.at(**pairs[place], by=by, settings=settings)) for place in places]
            ratios = {
                place: these.estimate("steady_mbps").mean / alone[place][0] for place, these in tried if list(these)
            }
            axes.scatter(list(ratios.values()), list(ratios), color=colour, marker=marker, s=30, label=label)
        axes.axvline(1, color="#999999", linewidth=1)
        axes.set_yticks(places, [_title(pair) for pair in pairs], fontsize=8)
        axes.invert_yaxis()
        axes.set_xlim(0)
        axes.set_xlabel("throughput, times that of the best single link")
        tidy(axes, "x")
        figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=8)

    def _against_the_kernel(self, readings: Readings) -> Verdict:
        """Of all pairs the one where the appliance's settings come off worst beside the kernel's own."""
        ratios = {}
        for pair in self._pairs:
            native = readings.at(**pair, by="native")
            ours, theirs = (native.at(settings=each).repeated("steady_mbps") for each in (_APPLIANCE, _KERNEL))
            ratios[_title(pair)] = (ours / theirs).estimate
        worst, ratio = min(ratios.items(), key=lambda each: each[1].mean)
        claim = f"the appliance's settings cost nothing anywhere (worst: {worst})"
        return Verdict(claim, f"{ratio} times the kernel's own", f"at least {_LEAST:.2f} times", ratio.reaches(_LEAST))


def _who(pair: Point) -> list[Point]:
    links = (_FIRST, _SECOND) if pair["links"] == "2" else (_FIRST, _SECOND, _THIRD)
    settings = (_KERNEL, _AMPLE) if _loses(pair) else (_KERNEL,)
    return [
        *({"settings": _APPLIANCE, "by": LEGACY, "link": link} for link in links),
        *({"settings": _APPLIANCE, "by": converter, "link": _FIRST} for converter in CONVERTERS),
        *({"settings": each, "by": "native", "link": _FIRST} for each in settings),
    ]


def _loses(pair: Point) -> bool:
    """Where a link loses packets, a send buffer may be too small."""
    return Share.parse(pair["loss"]).amount > 0


def _alone(readings: Readings) -> list[Repeated]:
    """What legacy TCP gets over each link, the best first."""
    links = sorted({reading.point["link"] for reading in readings.at(by=LEGACY)})
    found = (readings.at(by=LEGACY, link=link).repeated("steady_mbps") for link in links)
    return sorted(found, key=lambda each: each.estimate.mean, reverse=True)


def _against_the_best(pair: Point, readings: Readings) -> Iterator[Verdict]:
    bound = _alone(readings)[0] * _LEAST
    for converter in CONVERTERS:
        through = readings.at(by=converter, settings=_APPLIANCE)
        because = _about_the_send_buffer(readings, through, bound.estimate.mean) if _loses(pair) else ""
        claim = f"95 % of the best single link or more ({_title(pair)}; {converter})"
        yield at_least(claim, through.repeated("steady_mbps"), bound, "Mbit/s", because)


def _about_the_send_buffer(readings: Readings, through: Readings, bound: float) -> str:
    """Whether a larger one would do; if not, whether the kernel gave the first link what the second one held up."""
    ample = readings.at(settings=_AMPLE).estimate("steady_mbps")
    given = f"a send buffer that begins with {_AMPLE_BUFFER >> 20} MB instead of 2 gives {ample} Mbit/s"
    if ample.mean >= bound:
        return f"{given}; the first link waits for room while what the second one was given is not acknowledged"
    again = through.estimate("segments_sent_again")
    held = "what the second link was given at a good moment and then loses holds up all that comes after it"
    return f"{held}: the kernel sent {again} segments of it again by the first one; {given}, and only delays that"


def _title(pair: Point) -> str:
    third = ", and a third link" if pair["links"] == "3" else ""
    return f"second link {pair['rate']}, {pair['rtt']}, {pair['loss']} loss{third}"
