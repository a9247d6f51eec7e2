"""The native converter over two emulated access links of 100 Mbit/s and 25 ms each: one may go.

    client == left,  100 Mbit/s, 25 ms ==\\
           == right, 100 Mbit/s, 25 ms ===> gateway (converter) -- server
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from experiments.fetch import fetch
from experiments.record import Download, Sample
from experiments.testbed.appliance import start_converter
from experiments.testbed.build import Testbed, standing
from experiments.testbed.impairment import lossy
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


def interrupted(net: Testbed, file: File) -> Download:
    """A download during which the right link is cut for two seconds, and nobody is told."""
    ticks = 0  # a tenth of a second each
    with ExitStack() as cut:

        def progress(_received: int) -> None:
            nonlocal ticks
            ticks += 1
            if ticks == CUT * 10:
                cut.enter_context(lossy(net, net.topology.links[1]))
            elif ticks == RESTORED * 10:
                cut.close()

        download = fetch(net, "native", file, "left", NATIVE_PORT, progress=progress)
    assert download.sha256 == file.sha256
    return download


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
