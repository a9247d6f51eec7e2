"""Throughput around the moment when a relay leaves a download, by the delay of the leg behind which the sender then is.

    client ==100 Mbit/s, so much delay== relay ---- server

The server sends to a relay that is next to it, and from the moment on to a client that is farther: its round trip grows
from microseconds to that of the link. Derived: for how long less than half of what came before comes to the client, the
throughput of the last second before and of the last part after, the processor time of the relay's process, and what the
server's TCP did meanwhile: timers that ended, of these too early ones (RFC 5682), segments that it sent again.

Expected: no byte is wrong. A timer is at least 200 ms longer than the round trip (TCP_RTO_MIN in include/net/tcp.h), so
it ends too early where the round trip grows by more than that: the paper raises the delay in steps before the change,
10 ms each, so that the sender's timer follows. Below, steps would change nothing. What takes time anyway is that the
server's congestion window is one for a round trip of microseconds: it has to grow to what the new one takes, by slow
start at best, which is the longer the farther the client is.

The relay's receive buffers grow to 6 MB at most, as by default before Linux 6.17. With the 32 MB of later kernels
windows are told in units of 1 kB, rounded up to more than one segment of 1460 bytes: the sender never has to stop, and
what it has in flight is lost when the relay leaves.
"""

import json
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Annotated

from matplotlib.figure import Figure
from pydantic import BeforeValidator, Field

from experiments.bench.kernel_threads import Clocks
from experiments.plots import colours_of, tidy
from experiments.scenarios.one_link import ORIGIN, Linked, OneLink
from experiments.scenarios.sweeps import numbers
from experiments.study.readings import Point, Reading, Readings, Verdict, at_least, at_most
from experiments.study.scenario import Options, Scenario
from experiments.testbed import native
from experiments.testbed.node import Node, Process
from experiments.testbed.profile import PROFILES
from experiments.testbed.topology import Profile, Topology
from tributary.settings.failure import Exit, Failure
from tributary.settings.files import check
from tributary.settings.units import Size

_LINK, _RATE = "path", 100
_RELAY = f"{Topology.PROXY4}:7000"
_EVERY = 0.05
_AROUND = 2.0
"""Seconds after the change in which the dip is looked for."""
_LEAST_AFTER = 0.5
"""Seconds after that of which the throughput is taken."""
_EARLIEST_TIMER = 200
"""Milliseconds by which a retransmission timer is longer than the round trip."""
_GOES_ON = 0.9
_BUFFERS = "4096 131072 6291456"
_COUNTERS = {"timers": "TCPTimeouts", "early_timers": "TCPSpuriousRTOs", "sent_again": "RetransSegs"}


class LeaveOptions(Options):
    """``rtt``: of the link, in milliseconds; ``size`` of the download, which the relay leaves once half of it has
    passed.
    """

    size: Size = Field(default=Size(150_000_000), description="a size, such as '150MB'")
    rtt: Annotated[
        tuple[Annotated[int, Field(ge=2, le=1000, multiple_of=2)], ...],
        BeforeValidator(numbers(int)),
        Field(min_length=1, description="even numbers from 2 to 1000 with commas between them, such as '20,100'"),
    ] = (20, 100)


def _points(options: LeaveOptions, _topology: Topology) -> list[Point]:
    return [{"rtt": str(each)} for each in options.rtt]


def _blueprint(_options: LeaveOptions, _profile: Profile, point: Point) -> OneLink:
    link = {"rate": f"{_RATE}mbit", "delay": f"{int(point['rtt']) // 2}ms", "queue": 1000}
    return OneLink(check({"links": {_LINK: link}}, Profile, "the link"))


def _measure(built: Linked, options: LeaveOptions, point: Point, repetition: int) -> Reading:
    """Raises Failure (exit 1) if a byte was wrong or the relay stayed."""
    testbed, size = built.testbed, options.size.amount
    devices = ("--client-device", _LINK, "--server-device", "core")
    command = [str(native.relays().leaving), "--listen", _RELAY, "--to", ORIGIN, *devices, "--after", str(size // 2)]
    testbed.gateway.sysctl(net__ipv4__tcp_rmem=_BUFFERS)
    before = _counters(testbed.server)
    with testbed.gateway.start("leaving-relay", command).wait_until_ready() as relay:
        bulk = [str(native.build().load), "bulk", "--to", _RELAY, "--bytes", str(size), "--verify"]
        with testbed.client.start("bulk", bulk) as client:
            samples, change = _watch(client, relay)
    after = _counters(testbed.server)
    counted = {name: float(after[key] - before[key]) for name, key in _COUNTERS.items()}
    series = {"throughput": [(at - change, rate) for at, rate in _rates(samples)]}
    return Reading(point, repetition, told(samples, change) | counted, series)


def _watch(client: Process, relay: Process) -> tuple[list[tuple[float, int, float]], float]:
    """Moments with the bytes that came to the client and the seconds of the relay's process, and when it had left."""
    samples: list[tuple[float, int, float]] = []
    change, clocks = 0.0, Clocks([relay.popen.pid])
    while client.popen.poll() is None:
        now = time.monotonic()
        if not change and '"left"' in relay.output():
            change = now
        samples.append((now, _received(client.popen.pid), clocks.seconds()))
        time.sleep(_EVERY)
    if client.popen.returncode != 0 or not change:
        raise Failure(Exit.WRONG_RESULT, f"the download failed, or the relay stayed: {client.output()}{relay.output()}")
    left = samples[-2][0] - change
    if left < _AROUND + _LEAST_AFTER:
        least = f"at least {_AROUND + _LEAST_AFTER:g} s are needed: a larger size gives them"
        raise Failure(Exit.WRONG_RESULT, f"the download ended {left:.1f} s after the relay had left it: {least}")
    return samples[:-1], change


def _received(pid: int) -> int:
    """Bytes that have come to the network namespace of a process by the link (proc_pid_net(5))."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has just ended
    return next((int(line.split()[1]) for line in lines if line.split()[0] == f"{_LINK}:"), 0)


def _counters(node: Node) -> Mapping[str, int]:
    kernel: dict[str, int] = json.loads(node.run("nstat", "--json", "--ignore", "--zeros", "--noupdate"))["kernel"]
    return {name.removeprefix("TcpExt").removeprefix("Tcp"): number for name, number in kernel.items()}


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


def _judge(options: LeaveOptions, _topology: Topology, readings: Readings) -> list[Verdict]:
    verdicts = []
    for rtt in options.rtt:
        these, where = readings.at(rtt=str(rtt)), f"({rtt} ms)"
        kept, timers = these.estimate("kept"), these.estimate("timers")
        verdicts.append(at_least(f"throughput comes back {where}", kept, _GOES_ON, "of that before"))
        if rtt < _EARLIEST_TIMER:
            verdicts.append(at_most(f"no timer ends, without steps {where}", timers, 0, "timers"))
    return verdicts


def _draw(figure: Figure, _topology: Topology, readings: Readings) -> None:
    all_rtts = sorted({int(reading.point["rtt"]) for reading in readings})
    colours = colours_of(str(each) for each in all_rtts)
    axes = figure.subplots()
    for rtt, colour in colours.items():
        reading = next(iter(readings.at(rtt=rtt)))
        times, rates = zip(*reading.series["throughput"], strict=True)
        axes.plot(times, rates, color=colour, linewidth=1, label=f"{rtt} ms")
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("seconds since the relay has left")
    axes.set_ylabel("Mbit/s that come to the client")
    axes.legend(frameon=False, title="round trip of the link")
    tidy(axes, "y")


SCENARIO = Scenario(
    name="overlay-leave",
    paper="MOSTO, section on the transition",
    claim="The delay is raised in steps before a proxy leaves, so that no retransmission timer ends.",
    expected="No timer ends where the round trip grows by less than 200 ms; throughput comes back.",
    profile=PROFILES / "long-path.toml",
    options=LeaveOptions,
    quick={"repeat": 1, "size": "100MB", "rtt": "20"},
    points=_points,
    blueprint=_blueprint,
    measure=_measure,
    judge=_judge,
    draw=_draw,
    about=__doc__,
    any_links=False,
)
