"""One kept connection whose every request another back end answers, by hand-off and by proxies in the front's place.

    client ==2 links== switch ==1 link each== front or proxy, back end a, back end b

A client asks for one object after the other by one connection, all of them at one back end (`same`), or by turns at
both (`another`). For a proxy that makes no difference. By hand-off, behind each answer the back end asks the front who
is next; only with `another` the front has the switch change the rule and the other back end take the connection.

Derived: the time of a request behind the first one, the median. Expected: with another back end it is longer by less
than a millisecond, and not more than a tenth of an answer passes the front's link.
"""

from collections.abc import Iterator, Sequence
from statistics import median

from matplotlib.figure import Figure
from pydantic import Field

from experiments.handoff import clients
from experiments.handoff.contest import HANDOFF, PROXIES, Contest, contest, is_here
from experiments.plots import bars, colours_of, name_axes
from experiments.study.blueprint import Ground
from experiments.study.experiment import Count, Experiment
from experiments.study.readings import Point, Reading, Readings, Verdict, at_most
from experiments.testbed.topology import Profile, Topology
from tributary.settings.units import PositiveRate, Size

_SAME, _ANOTHER = "same", "another"
_WHERE = {_SAME: ("a", "a"), _ANOTHER: ("a", "b")}
_BY = (HANDOFF, *PROXIES)
_MORE = 1000
"""Microseconds by which a request may be longer if its back end is another one."""
_PASSING = 10
"""Percent of the answers' bytes."""


class HandoffBackends(Experiment):
    """``rate`` of a link; ``size`` of an object; so many ``requests`` by each of ``connections``, one at a time."""

    claim = "The requests of one connection may go to any back end each."
    expected = "It costs less than a millisecond, and no answer passes the front."
    quick = {"repeat": 1, "connections": 3}
    in_turn = True
    at = [{"by": by, "next": following} for by in _BY for following in _WHERE]

    rate: PositiveRate = PositiveRate(10**9)
    size: Size = Size(256_000)
    requests: int = Field(default=20, ge=2, le=1000, description="a whole number from 2 to 1000")
    connections: Count = 50

    def blueprint(self, _profile: Profile, _point: Point) -> Ground[Contest]:
        return contest(self.rate, (self.size.amount,))

    def measure(self, built: Contest, point: Point, repetition: int) -> Reading:
        """Nothing of who is not here. Raises CommandError (exit 71) if a client needs more than one connection."""
        if not is_here(point["by"]):
            return Reading(point, repetition, {})
        names, size = _WHERE[point["next"]], self.size.amount
        urls = [built.url(point["by"], names[number % 2], size) for number in range(self.requests)]
        before = built.front_bytes
        times = clients.times(built.client, urls, "time_total", self.connections)
        passed = built.front_bytes - before
        return Reading(point, repetition, told(times, passed, size))

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        another, same = (readings.at(by=HANDOFF, next=which) for which in (_ANOTHER, _SAME))
        longer = another.repeated("request_us") - same.repeated("request_us")
        yield at_most("another back end costs a request less than a millisecond", longer, _MORE, "us")
        yield at_most("no answer passes the front", another.estimate("front_percent"), _PASSING, "% of their bytes")

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        axes = figure.subplots()
        here = [by for by in _BY if readings.at(by=by).values("request_us")]
        heights = {
            f"{where} back end": [readings.at(by=by, next=where).estimate("request_us") for by in here]
            for where in _WHERE
        }
        bars(axes, here, heights, colours_of(heights))
        name_axes(axes, y="microseconds of a request", along="y", legend=True)


def told(times: Sequence[Sequence[float]], passed: int, size: int) -> dict[str, float]:
    """What the microseconds of all requests of some connections for ``size`` bytes each, and the bytes that ``passed``
    the front, come to. Pure.
    """
    count = sum(map(len, times))
    return {
        "request_us": median(each for connection in times for each in connection[1:]),
        "front_percent": 100 * passed / (count * size),
    }
