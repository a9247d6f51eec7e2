"""An operator throttles a path in the middle of a download.

    client ==wired====== gateway ---- server   10 Mbit/s, held to 1 Mbit/s once half of the file has come
           ==wireless===                       6 Mbit/s

Derived: each path's rate on the wire before the operator's command and behind it. Expected: the held path falls to its
rate at once, the connection does not break, and new data goes by the other path: Linux gives it to the subflow that
will have sent all it has soonest, by its pacing rate (mptcp_subflow_get_send() in net/mptcp/protocol.c).

What the held path had been given before stays with it, and goes out at the held rate; data behind it waits in the
client. So the client's receive buffer is the paper's 0.72 MB here, which bounds that backlog, and the other link does
not fill before it is out. With the appliance's 32 MB all of the second half was in the gateway's send buffers when the
hold came: 1.3 MB on the held path, unsent (ss -tinM), which took ten seconds, and the other link carried 0.5 Mbit/s
meanwhile instead of 1.9.
"""

from matplotlib.figure import Figure

from experiments.scenarios.throttling import (
    HELD,
    MIDWAY,
    ThrottleOptions,
    draw_moments,
    held_points,
    measure,
    verdicts_on_hold,
)
from experiments.study.readings import Point, Readings, Verdict, at_least
from experiments.study.scenario import Scenario
from experiments.testbed.profile import PROFILES
from experiments.testbed.topology import Topology

_TIMES = 2.0  # the rate that it is held to


def _points(_options: ThrottleOptions, topology: Topology) -> list[Point]:
    return held_points(MIDWAY, topology)


def _judge(options: ThrottleOptions, topology: Topology, readings: Readings) -> list[Verdict]:
    verdicts = []
    for point in _points(options, topology):
        who, these = f"{point['by']}, {point['family']}", readings.at(**point)
        before = these.estimate(f"{point['link']}_before_mbps")
        bound = _TIMES * options.rate.amount / 1e6
        claim = f"{point['link']} carried far more before ({who})"
        verdicts += [at_least(claim, before, bound, "Mbit/s"), *verdicts_on_hold(options, topology, these, who)]
    return verdicts


def _draw(figure: Figure, topology: Topology, readings: Readings) -> None:
    draw_moments(figure, topology, readings, "held midway", (HELD,))


SCENARIO = Scenario(
    name="throttle-midway",
    paper="new",
    claim="A throttle that an operator sets in the middle of a download moves the load and breaks nothing.",
    expected="The held path falls to its rate within a third of a second, and the other one carries more.",
    profile=PROFILES / "slow.toml",
    options=ThrottleOptions,
    quick={"repeat": 1, "size": "12MB"},
    points=_points,
    measure=measure,
    judge=_judge,
    draw=_draw,
    about=__doc__,
    least_links=2,
)
