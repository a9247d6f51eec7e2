"""What the first connection pays where a converter is started by it.

systemd-socket-activate(1) listens at the converter's port, and becomes the converter when a connection comes; it hands
its socket over (sd_listen_fds(3)), where the connection waits meanwhile. Each connection asks an origin on plain cables
for a kilobyte. A converter that was started so can end when nobody uses it (``timeouts.unused``).
"""

import shutil
from statistics import median

from experiments.scenarios.acceleration_start import LISTENS, converter
from experiments.scenarios.cabled import cabled
from experiments.study.experiment import Count, Experiment, Repeat
from experiments.study.metrics import Metric, metrics_of
from experiments.study.readings import Point, Reading, Readings
from experiments.testbed import cables
from experiments.testbed.build import Testbed
from experiments.testbed.cables import ORIGIN
from tributary.settings.errors import CommandError, Exit

_ACTIVATE = "systemd-socket-activate"
_NEXT = 10
"""Connections after the first one."""


class OverlayOnDemand(Experiment):
    """``count``: of converters, one after the other."""

    claim = "What does the first connection pay where a converter is started by it?"
    quick = {"repeat": 1, "count": 3}
    in_turn = True
    at = [{"listens": _ACTIVATE}]
    ground = cabled()

    repeat: Repeat = 3
    count: Count = 15

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """``on_demand_first_ms`` and ``on_demand_next_ms``, medians."""
        if shutil.which(_ACTIVATE) is None:
            raise CommandError(Exit.UNAVAILABLE, f"{_ACTIVATE} is missing: apt install systemd")
        first, later = zip(*(_transfers(testbed) for _ in range(self.count)), strict=True)
        taken = {"on_demand_first_ms": first, "on_demand_next_ms": later}
        return Reading(point, repetition, {name: median(each) for name, each in taken.items()}, samples=taken)

    def metrics(self, readings: Readings) -> list[Metric]:
        """``on_demand_first_ms``: until all of the first answer is there; ``on_demand_next_ms``: of the next ones; and
        ``on_demand_pays_ms``: what the first pays more.
        """
        both = metrics_of(readings, ("on_demand_first_ms", "on_demand_next_ms"))
        first, later = (metric.median for metric in both)
        return [*both, Metric("on_demand_pays_ms", [first - later])]


def _transfers(testbed: Testbed) -> tuple[float, float]:
    """Milliseconds of the first one through a new converter, and of those after it, their median."""
    command = [_ACTIVATE, f"--listen={LISTENS}", *converter(testbed)]
    with testbed.gateway.start("on-demand", command).wait_for_output():
        asked = ["transfers", "--to", ORIGIN, "--via-http-proxy", LISTENS, "--count", str(1 + _NEXT), "1000"]
        (first, *later) = (whole for _first_byte, whole in cables.load(testbed, *asked)["1000"])
    return first, median(later)
