"""By how much short transfers are shortened, through one to three converters on 100 ms."""

from collections.abc import Callable

from experiments.bench.pair import NAME
from experiments.scenarios.acceleration import PROXIES, SCENARIO, AccelerationOptions, Segments, transfers
from experiments.study.figures import Series
from experiments.testbed.chain import By
from experiments.testbed.topology import Profile, Topology
from tributary.settings.files import load
from tributary.settings.units import Size

_WHAT = {"ttfb_gain": "first_byte_ms_10", "ttc25_gain": "whole_ms_25"}
_BY = {By.EARLY: "", By.LATE: "_late", By.ZERO_RTT: "_0rtt"}


def gains(repetitions: int, transfers_each: int, say: Callable[[str], None]) -> tuple[list[Series], dict[str, float]]:
    """``ttfb_gain_pct_N`` and ``ttc25_gain_pct_N``: by how many per cent the first byte, and all of 25 kB, come sooner
    through N converters than over the same segments alone, by early SYN forwarding. ``ttfb_gain_late_pct_N`` and so on:
    where each converter connects when the handshake before it has ended; ``..._0rtt_...``: by 0-RTT Convert.
    """
    link = Topology.of(load(SCENARIO.profile, Profile)).links[0]
    options = AccelerationOptions(size=(Size(10_000), Size(25_000)), count=transfers_each)
    series = []
    for proxies in PROXIES:
        reached: dict[str, list[float]] = {}
        for repetition in range(repetitions):
            with Segments(link, proxies).standing(NAME, seed=repetition) as built:
                direct = transfers(built.chain, By.DIRECT, options)
                for by, end in _BY.items():
                    taken = transfers(built.chain, by, options)
                    for name, value in _WHAT.items():
                        gain = 100 * (1 - taken[value] / direct[value])
                        reached.setdefault(f"{name}{end}_pct_{proxies}", []).append(gain)
        series += [Series(name, "%", tuple(numbers)) for name, numbers in reached.items()]
        say(f"{proxies} converters: " + ", ".join(f"{each.name} {each.median:.1f}" for each in series[-len(reached) :]))
    return series, {each.name: each.median for each in series}
