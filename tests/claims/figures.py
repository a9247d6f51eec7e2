"""What some experiments quote beside their papers' claims, as their benchmarks do: it is there and is plausible."""

from collections.abc import Callable, Mapping

Figures = Mapping[str, float]
"""Medians and ratios by their names."""


def _acceleration(figures: Figures) -> None:
    for proxies, possible in ((1, 25), (2, 33.3), (3, 37.5)):
        # Nobody is quicker than round trips alone allow, but for what a busy machine adds to the way without a proxy.
        assert figures[f"ttfb_gain_pct_{proxies}"] < possible + 4
        assert figures[f"ttfb_gain_pct_{proxies}"] < figures[f"ttfb_gain_0rtt_pct_{proxies}"] < 51


def _acceleration_start(figures: Figures) -> None:
    assert figures["rss_mb"] < 20


def _handoff_sizes(figures: Figures) -> None:
    assert figures["front_cpu_saving_2mb"] > 2
    assert figures["latency_2mb_vs_direct"] > 0.3
    assert 0 < figures["direct_startup_us"] < 1e6
    assert 0 < figures["startup_us"] < 1e6
    assert 0 < figures["rule_us"] < 100_000
    for size in (60, 1514):
        assert 0 < figures[f"rewrite_ns_{size}"] < 10_000
        assert 0 < figures[f"xdp_rewrite_ns_{size}"] < 10_000


PLAUSIBLE: Mapping[str, Callable[[Figures], None]] = {
    "acceleration": _acceleration,
    "acceleration-start": _acceleration_start,
    "handoff-sizes": _handoff_sizes,
}
"""By the experiment; raises AssertionError for a figure that cannot be."""
