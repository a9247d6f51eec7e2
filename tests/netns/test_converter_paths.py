"""The native converter over two emulated access links of 100 Mbit/s and 25 ms each: both are used, and one may go.

    client == left,  100 Mbit/s, 25 ms ==\\
           == right, 100 Mbit/s, 25 ms ===> gateway (converter) -- server
"""

import os
from collections.abc import Callable, Iterator

import pytest

from experiments.fetch import fetch
from experiments.record import Download, Sample
from experiments.testbed.appliance import start_converter
from experiments.testbed.build import Testbed, standing
from experiments.testbed.selfcheck import check_links
from experiments.testbed.server import File, random_file, start_server
from experiments.testbed.topology import NATIVE_PORT, Profile
from tests.measured.experiments import above_all_else
from tributary.settings.files import check

pytestmark = [pytest.mark.slow, pytest.mark.calm]

LINK = {"rate": "100mbit", "delay": "12500us", "queue": 200}
PROFILE = check({"links": {"left": LINK, "right": LINK}}, Profile, "two equal links")
CUT, RESTORED = 2.0, 4.0  # seconds since the request
LONGEST_GAP = 1.0
MOST = 0.7
TRIES = 3  # other work on the machine can spoil one


@pytest.fixture(scope="module")
def file() -> File:
    return random_file(250_000_000, seed=4)


@pytest.fixture(scope="module")
def net(file: File) -> Iterator[Testbed]:
    above_all_else()  # as is what runs beside it (tests/claims)
    try:
        with standing("testpaths", PROFILE) as testbed:
            check_links(testbed)
            start_server(testbed, file.path.parent)
            start_converter(testbed)
            yield testbed
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def by_mptcp(net: Testbed, file: File, progress: Callable[[int], None] = lambda _received: None) -> Download:
    download = fetch(net, "native", file, "left", NATIVE_PORT, progress=progress)
    assert download.sha256 == file.sha256
    return download


def test_both_paths_carry_most_of_their_sum(net: Testbed, file: File) -> None:
    """0.89 to 0.99 on a calm machine; by the better path alone it would be half."""
    small = random_file(100_000_000, seed=4)
    shares: list[float] = []
    while not shares or (shares[-1] < MOST and len(shares) < TRIES):
        # Anew each time: what slows the machine slows both.
        links = sum(fetch(net, link, small, link, None).mbps for link in ("left", "right"))
        download = by_mptcp(net, file)
        assert min(download.samples[-1].by_path().values()) > file.size / 4
        shares.append(download.mbps / links)
    assert max(shares) >= MOST, shares


def filtered(net: Testbed, link: str, cut: bool) -> None:
    """Nothing comes or goes by ``link`` any more, and nobody is told; or everything again."""
    chains = (
        f'chain in {{ type filter hook input priority 0; iifname "{link}" drop; }};',
        f'chain out {{ type filter hook output priority 0; oifname "{link}" drop; }};',
    )
    net.client.run("nft", f"table inet cut {{ {' '.join(chains)} }}" if cut else "delete table inet cut")


def interrupted(net: Testbed, file: File) -> Download:
    """A download during which the right link is cut for two seconds."""
    ticks = 0  # a tenth of a second each

    def progress(_received: int) -> None:
        nonlocal ticks
        ticks += 1
        if ticks in (CUT * 10, RESTORED * 10):
            filtered(net, "right", cut=ticks == CUT * 10)

    return by_mptcp(net, file, progress)


def longest_gap(samples: list[Sample]) -> float:
    """The longest time, in seconds, in which nothing came by any path."""
    longest, since = 0.0, samples[0]
    for sample in samples:
        if sum(sample.received.values()) > sum(since.received.values()):
            since = sample
        longest = max(longest, sample.at - since.at)
    return longest


def test_a_path_that_is_cut_delays_the_transfer_for_less_than_a_second_and_is_used_again(
    net: Testbed, file: File
) -> None:
    gaps: list[float] = []
    while not gaps or (gaps[-1] > LONGEST_GAP and len(gaps) < TRIES):
        samples = list(interrupted(net, file).samples)
        gaps.append(longest_gap(samples))
    assert min(gaps) <= LONGEST_GAP, gaps
    cut = [sample.by_path()["right"] for sample in samples if CUT + 0.5 < sample.at < RESTORED - 0.2]
    assert cut[-1] == cut[0]
    assert samples[-1].by_path()["right"] > cut[-1] + file.size / 20
