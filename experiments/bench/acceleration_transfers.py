"""By how much short transfers are shortened, through one to three converters on 100 ms.

Each repetition has chains of its own; a gain is that over the same segments alone, in the same repetition. The model
behind it is in experiments/scenarios/acceleration.py, the figures in Miniproxy (HotMiddlebox 2016).
"""

from collections.abc import Iterator

from experiments.scenarios import acceleration
from experiments.scenarios.acceleration import PROXIES, AccelerationOptions
from experiments.scenarios.sweeps import Sizes
from experiments.study.benchmark import benchmark
from experiments.study.figures import Figures, Series, pairs
from experiments.study.readings import Readings
from experiments.study.scenario import Repeat
from experiments.testbed.chain import By
from tributary.settings.units import Size

_WHAT = {"ttfb_gain": "first_byte_ms_10", "ttc25_gain": "whole_ms_25"}
_BY = {By.EARLY: "", By.LATE: "_late", By.ZERO_RTT: "_0rtt"}


class TransferOptions(AccelerationOptions):
    """Of the two sizes that are quoted."""

    repeat: Repeat = 5
    size: Sizes = (Size(10_000), Size(25_000))


def figures(readings: Readings) -> Figures:
    """``ttfb_gain_pct_N`` and ``ttc25_gain_pct_N``: by how many per cent the first byte, and all of 25 kB, come sooner
    through N converters than over the same segments alone, by early SYN forwarding. ``ttfb_gain_late_pct_N`` and so on:
    where each converter connects when the handshake before it has ended; ``..._0rtt_...``: by 0-RTT Convert.
    """
    series = [*_gains(readings)]
    return Figures(series, values={each.name: each.median for each in series})


def _gains(readings: Readings) -> Iterator[Series]:
    for proxies in PROXIES:
        these = readings.at(proxies=str(proxies))
        for by, end in _BY.items():
            for name, value in _WHAT.items():
                taken = pairs(these.at(by=by.value), these.at(by=By.DIRECT.value), value)
                gains = [100 * (1 - through / direct) for through, direct in taken]
                yield Series(f"{name}{end}_pct_{proxies}", "%", gains)


SCENARIO = benchmark(
    name="acceleration-transfers",
    question="How much sooner do short transfers come through 1 to 3 converters on 100 ms?",
    about=__doc__,
    profile=acceleration.SCENARIO.profile,
    options=TransferOptions,
    quick={"repeat": 1, "count": 2},
    points=acceleration.points,
    blueprint=acceleration.SCENARIO.blueprint,
    measure=acceleration.SCENARIO.measure,
    figures=figures,
)
