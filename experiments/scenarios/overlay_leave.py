"""Throughput around the moment when a relay leaves a download, by the delay of the leg behind which the sender then is.

    client ==100 Mbit/s, so much delay== relay ==no delay, or in steps== server

The server sends to a relay that is next to it, and from the moment on to a client that is farther: its round trip grows
from microseconds to that of the link. Server and client share a node, each with a link of its own to the relay's. With
steps, from the download's first quarter on, the server's link gets 10 ms more every 0.1 s until its round trip is that
of the client's; the moment the relay has left it has none any more, so that the server's stays as it was. Derived: for
how long less than half of what came before comes to the client, the throughput of the last second before and of the
last part after, the processor time of the relay's process, and what TCP did meanwhile: timers that ended, of these too
early ones (RFC 5682), segments that were sent again.

Expected: no byte is wrong. A timer is at least 200 ms longer than the round trip (TCP_RTO_MIN in include/net/tcp.h), so
it ends too early where the round trip grows by more than that: the paper raises the delay in steps before the change,
10 ms each, so that the sender's timer follows. Below, steps spare no timer. What takes time anyway is that the server's
congestion window has to grow to what the new round trip takes, by slow start at best, which is the longer the farther
the client is.

The relay's receive buffers grow to 6 MB at most, as by default before Linux 6.17. With the 32 MB of later kernels
windows are told in units of 1 kB, rounded up to more than one segment of 1460 bytes: the sender never has to stop, and
what it has in flight is lost when the relay leaves.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean
from typing import Annotated

from matplotlib.figure import Figure
from pydantic import Field

from experiments.plots import colours_of, name_axes
from experiments.scenarios.cabled import linked
from experiments.study.blueprint import Ground
from experiments.study.experiment import Experiment, Several
from experiments.study.readings import Point, Reading, Readings, Verdict, at_least, every, worst
from experiments.testbed import native
from experiments.testbed.build import Testbed
from experiments.testbed.cables import offload_relay
from experiments.testbed.links import set_delay
from experiments.testbed.node import Process
from experiments.testbed.topology import CLIENT, Profile, Topology
from experiments.testbed.usage import Clocks, bytes_passed, counted
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import check
from tributary.settings.units import Duration, Size

_LINK, _NEAR, _RATE = "path", "near", 100
_STEPS = {"none": 0, "10 ms": 10}
"""Milliseconds of each, by what points say."""
_NEXT_STEP = 0.1
_RELAY = f"{Topology.PROXY4}:7000"
_EVERY = 0.02
_AROUND = 2.0
"""Seconds after the change in which the dip is looked for."""
_LEAST_AFTER = 0.5
"""Seconds after that of which the throughput is taken."""
_EARLIEST_TIMER = 200
"""Milliseconds by which a retransmission timer is longer than the round trip."""
_GOES_ON = 0.9
_BUFFERS = "4096 131072 6291456"
_COUNTERS = {"timers": "TcpExtTCPTimeouts", "early_timers": "TcpExtTCPSpuriousRTOs", "sent_again": "TcpRetransSegs"}


class OverlayLeave(Experiment):
    """``rtt``: of the link, in milliseconds; ``size`` of the download, which the relay leaves once half of it has
    passed.
    """

    paper = "MOSTO, section on the transition"
    claim = "The delay is raised in steps before a proxy leaves, so that no retransmission timer ends."
    expected = "No timer ends with steps, nor without where the round trip grows by less than 200 ms."
    over = "long-path.toml"
    quick = {"repeat": 1, "size": "100MB", "rtt": "20"}

    size: Size = Size(150_000_000)
    rtt: Several[Annotated[int, Field(ge=2, le=1000, multiple_of=2, strict=False)]] = Field(
        default=(20, 100), description="even numbers from 2 to 1000 with commas between them, such as '20,100'"
    )

    def points(self, _topology: Topology) -> list[Point]:
        return every(rtt=self.rtt, steps=_STEPS)

    def blueprint(self, _profile: Profile, point: Point) -> Ground[Testbed]:
        """Two links between the same nodes, with the origin where the client is."""
        link = {"rate": f"{_RATE}mbit", "delay": f"{int(point['rtt']) // 2}ms", "queue": 1000}
        near = {"rate": "1gbit", "queue": 1000}
        profile = check({"links": {_LINK: link, _NEAR: near}}, Profile, "the links")
        return linked(profile, CLIENT, _origin(Topology.of(profile)))

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """Raises CommandError (exit 1) if a byte was wrong or the relay stayed."""
        size = self.size.amount
        testbed.gateway.sysctl(net__ipv4__tcp_rmem=_BUFFERS)
        steps = Steps(testbed, _STEPS[str(point["steps"])], int(point["rtt"]))
        bulk = native.load("bulk", "--to", _RELAY, "--bytes", str(size), "--verify")
        # The origin, which runs there, shows the interfaces of the client's namespace.
        came = Path(f"/proc/{testbed.client.pids()[0]}/net/dev")
        with (
            counted(testbed.client) as counts,
            offload_relay(testbed.gateway, _RELAY, _origin(testbed.topology), (_LINK, _NEAR), size // 2) as relay,
            testbed.client.start("bulk", bulk) as client,
        ):
            samples, change = _watch(client, relay, came, steps, size // 4)
            tcp = counts()
        values = told(samples, change) | {name: float(tcp[counter]) for name, counter in _COUNTERS.items()}
        series = {"throughput": [(at - change, rate) for at, rate in _rates(samples)]}
        return Reading(point, repetition, values, series)

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for rtt, (steps, milliseconds) in product(self.rtt, _STEPS.items()):
            these = readings.at(rtt=str(rtt), steps=steps)
            where = f"({rtt} ms, {f'steps of {steps}' if milliseconds else 'no steps'})"
            yield at_least(f"throughput comes back {where}", these.estimate("kept"), _GOES_ON, "of that before")
            if milliseconds or rtt < _EARLIEST_TIMER:
                yield worst(f"no timer ends {where}", these.values("timers"), 0, "timers")

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        colours = colours_of(str(rtt) for rtt in readings.over("rtt", int))
        axes = figure.subplots()
        for (rtt, colour), (steps, milliseconds) in product(colours.items(), _STEPS.items()):
            reading = next(iter(readings.at(rtt=rtt, steps=steps)))
            times, rates = zip(*reading.series["throughput"], strict=True)
            style, how = ("--", ", steps") if milliseconds else ("-", "")
            axes.plot(times, rates, style, color=colour, linewidth=1, label=f"{rtt} ms{how}")
        axes.axvline(0, color="black", linewidth=0.8)
        axes.legend(frameon=False, title="round trip of the link")
        name_axes(axes, "seconds since the relay has left", "Mbit/s that come to the client", "y")


def _origin(topology: Topology) -> str:
    """At the client, by the link that the server's is."""
    return f"{topology.links[1].client4}:8080"


@dataclass
class Steps:
    """The delay of the server's link, which becomes more by a step of so many milliseconds until it is ``most``."""

    testbed: Testbed
    step: int
    most: int
    now: int = 0
    last: float = 0.0

    def rise(self, at: float) -> None:
        """One step, if there are any, and it is time for it."""
        if self.step and self.now < self.most and at >= self.last + _NEXT_STEP:
            self.last = at
            self._set(min(self.now + self.step, self.most))

    def end(self) -> None:
        if self.now:
            self._set(0)

    def _set(self, milliseconds: int) -> None:
        self.now, link = milliseconds, self.testbed.topology.links[1]
        set_delay(link.with_each_way(delay=Duration(milliseconds * 1000 // 2)), self.testbed.node(link.node))


def _watch(
    client: Process, relay: Process, came: Path, steps: Steps, rise_from: int
) -> tuple[list[tuple[float, int, float]], float]:
    """Moments with the bytes that came to the client and the seconds of the relay's process, and when it had left.

    ``came`` is what counts the bytes. The delay rises from so many on, and ends when the relay has left.
    """
    samples: list[tuple[float, int, float]] = []
    change, clocks = 0.0, Clocks([relay.popen.pid])
    while client.popen.poll() is None:
        now = time.monotonic()
        if not change and '"paused"' in relay.output():
            change = now
            steps.end()
        count, _ = bytes_passed(came.read_text())[_LINK]
        samples.append((now, count, clocks.seconds()))
        if not change and count - samples[0][1] >= rise_from:
            steps.rise(now)
        time.sleep(_EVERY)
    if client.popen.returncode != 0 or not change:
        raise CommandError(
            Exit.WRONG_RESULT, f"the download failed, or the relay stayed: {client.output()}{relay.output()}"
        )
    left = samples[-2][0] - change
    if left < _AROUND + _LEAST_AFTER:
        least = f"at least {_AROUND + _LEAST_AFTER:g} s are needed: a larger size gives them"
        raise CommandError(Exit.WRONG_RESULT, f"the download ended {left:.1f} s after the relay had left it: {least}")
    return samples[:-1], change


def _rates(samples: Sequence[tuple[float, int, float]]) -> list[tuple[float, float]]:
    """The middle of each time between two samples, and Mbit/s there."""
    return [((a[0] + b[0]) / 2, 8e-6 * (b[1] - a[1]) / (b[0] - a[0])) for a, b in pairwise(samples)]


def told(samples: Sequence[tuple[float, int, float]], change: float) -> dict[str, float]:
    """What the moments of one download come to. Pure."""
    rates = _rates(samples)
    before = fmean(rate for at, rate in rates if change - 1 <= at < change - 2 * _EVERY)
    after = fmean(rate for at, rate in rates if at >= change + _AROUND)
    low = [b - a for (a, _), (b, rate) in pairwise(rates) if -0.5 <= b - change < _AROUND and rate < before / 2]
    first, last = samples[0], samples[-1]
    left = next(sample for sample in samples if sample[0] >= change)
    return {
        "before_mbps": before,
        "after_mbps": after,
        "kept": after / before,
        "dip_ms": 1000 * sum(low),
        "before_cpu_percent": 100 * (left[2] - first[2]) / (left[0] - first[0]),
        "after_cpu_percent": 100 * (last[2] - left[2]) / (last[0] - left[0]),
    }
