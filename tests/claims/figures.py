"""What some experiments quote beside their papers' claims, as their benchmarks do: it is there and is plausible."""

from collections.abc import Callable, Mapping

Figures = Mapping[str, float]
"""Medians and ratios by their names."""


def _acceleration(figures: Figures) -> bool:
    # Nobody is quicker than round trips alone allow, but for what a busy machine adds to the way without a proxy.
    possible = {1: 25 + 4, 2: 33.3 + 4, 3: 37.5 + 4}
    return all(
        figures[f"ttfb_gain_pct_{proxies}"] < min(most, figures[f"ttfb_gain_0rtt_pct_{proxies}"])
        and figures[f"ttfb_gain_0rtt_pct_{proxies}"] < 51
        for proxies, most in possible.items()
    )


def _acceleration_start(figures: Figures) -> bool:
    return figures["rss_mb"] < 20


def _handoff_sizes(figures: Figures) -> bool:
    between = {
        "latency_2mb_vs_direct": (0.3, 10),
        "direct_startup_us": (0, 1e6),
        "startup_us": (0, 1e6),
        "rule_us": (0, 100_000),
        **{f"{hook}_ns_{size}": (0, 10_000) for hook in ("rewrite", "xdp_rewrite") for size in (60, 1514)},
    }
    if "front_cpu_saving_2mb" in figures:  # beside other proxies, where they are installed
        between["front_cpu_saving_2mb"] = (2, 1000)
    return all(least < figures[name] < most for name, (least, most) in between.items())


PLAUSIBLE: Mapping[str, Callable[[Figures], bool]] = {
    "acceleration": _acceleration,
    "acceleration-start": _acceleration_start,
    "handoff-sizes": _handoff_sizes,
}
"""By the experiment: whether its figures can be."""
