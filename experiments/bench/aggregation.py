"""Does MPTCP through the gateway use both links? Peers: legacy TCP over each of them, in the same run."""

from collections.abc import Callable

from experiments.bench.result import Result, Series
from experiments.fetch import fetch
from experiments.testbed.appliance import start_converter, start_squid
from experiments.testbed.build import standing
from experiments.testbed.profile import DEFAULT
from experiments.testbed.selfcheck import check_links
from experiments.testbed.server import random_file, start_server
from experiments.testbed.topology import NATIVE_PORT, PROXY_PORT, Profile
from tributary.settings.files import load

_CONTENDERS = (
    ("legacy_wired", "wired", None),
    ("legacy_wireless", "wireless", None),
    ("mptcp", "wired", PROXY_PORT),
    ("mptcp_native", "wired", NATIVE_PORT),
)


def aggregation(quick: bool, say: Callable[[str], None]) -> Result:
    """Downloads in turn, five times 50 MB each, or once 20 MB if ``quick``; medians and their ratios."""
    file = random_file(20_000_000 if quick else 50_000_000, seed=1)
    reached: dict[str, list[float]] = {name: [] for name, _, _ in _CONTENDERS}
    with standing("bench", load(DEFAULT, Profile)) as testbed:
        say("checking the links")
        check_links(testbed)
        start_server(testbed, file.path.parent)
        start_squid(testbed)
        start_converter(testbed)
        for repetition in range(1 if quick else 5):
            for name, link, proxy in _CONTENDERS:
                say(f"repetition {repetition + 1}: {name}")
                reached[name].append(fetch(testbed, name, file, link, proxy).mbps)
    series = {name: Series(name, "Mbit/s", tuple(numbers)) for name, numbers in reached.items()}
    wired, wireless, mptcp, native = (series[name].median for name, _, _ in _CONTENDERS)
    return Result(
        series=tuple(series.values()),
        ratios={
            "mptcp_vs_best_link": mptcp / max(wired, wireless),
            "mptcp_vs_sum": mptcp / (wired + wireless),
            "native_vs_sum": native / (wired + wireless),
        },
        values={
            "mptcp_mbps": mptcp,
            "native_mbps": native,
            "legacy_wired_mbps": wired,
            "legacy_wireless_mbps": wireless,
        },
    )
