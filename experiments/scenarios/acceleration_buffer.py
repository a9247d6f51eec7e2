"""A long download through one native converter, whose send buffer is a half to four times the client's receive buffer.

    client --- proxy --- server      100 Mbit/s, 100 ms in all, split evenly

The client's receive buffer may grow to ``receive``, what its half of the path needs; the proxy's send buffers may grow
to so many times that. Derived: Mbit/s from connect(2) to the last byte. A send buffer counts memory, of which a packet
takes more than is in it, and it holds what is on its way and not yet acknowledged beside what has still to go: a
receiver that offers a window can have it filled only by a sender that may keep more than that. Expected, as Miniproxy
has it: twice the receive buffer is enough, and half of it is not.
"""

from collections.abc import Iterator
from typing import Annotated

from matplotlib.figure import Figure
from pydantic import Field

from experiments.plots import curve, name_axes
from experiments.scenarios.acceleration import segments, transfers
from experiments.study.blueprint import Ground
from experiments.study.experiment import Experiment, Several
from experiments.study.readings import Point, Reading, Readings, Repeated, Verdict, at_least, at_most
from experiments.testbed.appliance import BufferSize, growing_to
from experiments.testbed.chain import By, Chain, split
from experiments.testbed.topology import Profile, Topology
from tributary.settings.units import Size

_ENOUGH, _TOO_LITTLE = 2.0, 0.5


class AccelerationBuffer(Experiment):
    """``size``: of the download; ``receive``: the client's buffer; ``ratio``: of the proxy's send buffers to that."""

    paper = "Miniproxy"
    claim = "A proxy's send buffer should be twice the receive buffer."
    expected = "Half the receive buffer slows the download down, more than twice does not help."
    over = "long-path.toml"
    quick = {"repeat": 1, "ratio": "0.5,2"}
    any_links = True

    size: Size = Size(30_000_000)
    receive: BufferSize = BufferSize(1_000_000)
    ratio: Several[Annotated[float, Field(gt=0, strict=False)]] = Field(
        default=(0.5, 1.0, 1.5, 2.0, 4.0), description="numbers above 0 with commas between them, such as '0.5,2'"
    )

    def points(self, _topology: Topology) -> list[Point]:
        return [{"ratio": f"{ratio:g}"} for ratio in self.ratio]

    def blueprint(self, profile: Profile, _point: Point) -> Ground[Chain]:
        return segments(split(Topology.of(profile).links[0], 2))

    def measure(self, chain: Chain, point: Point, repetition: int) -> Reading:
        chain.client.sysctl(net__ipv4__tcp_rmem=growing_to(self.receive.amount))
        for proxy in chain.proxies:
            proxy.sysctl(net__ipv4__tcp_wmem=growing_to(round(float(point["ratio"]) * self.receive.amount)))
        taken = transfers(chain, By.EARLY, (self.size,), 1)
        milliseconds = taken[f"whole_ms_{self.size.amount // 1000}"]
        return Reading(point, repetition, {"rate_mbps": 0.008 * self.size.amount / milliseconds})

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        rates = {ratio: these.repeated("rate_mbps") for ratio, these in readings.over("ratio").items()}
        most = Repeated.of_all(max, rates.values())
        if enough := [rate for ratio, rate in rates.items() if ratio >= _ENOUGH]:
            reached = Repeated.of_all(min, enough) / most * 100
            yield at_least("twice the receive buffer reaches 97 % of the most", reached, 97, "%")
        if _TOO_LITTLE in rates:
            reached = rates[_TOO_LITTLE] / most * 100
            yield at_most("half of it does not reach 80 %", reached, 80, "%")

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        axes = figure.subplots()
        curve(axes, readings.over("ratio"), "rate_mbps", color="black")
        name_axes(axes, "send buffer, in receive buffers", "Mbit/s", "y")
