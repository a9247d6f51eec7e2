"""Links with a trace, and all profiles that come with the project, as they are measured."""

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from experiments.probes.flood import PACKET
from experiments.testbed.build import Testbed, standing
from experiments.testbed.profile import PROFILES, TOLERANCE
from experiments.testbed.selfcheck import check_links
from experiments.testbed.topology import Profile
from tributary.settings.files import check, load

pytestmark = [pytest.mark.slow, pytest.mark.calm]

PORT = 5202


def traced(path: Path, times: Sequence[int]) -> Profile:
    path.write_text("".join(f"{time}\n" for time in times))
    link = {"delay": "5ms", "down": {"trace": str(path)}, "up": {"rate": "20mbit"}}
    return check({"links": {"traced": link}}, Profile, "p")


def flood(testbed: Testbed, bits_per_second: float, seconds: float) -> list[int]:
    """Flood downwards; returns the IP bytes that come in each millisecond, from the first packet on."""
    address = str(testbed.topology.links[0].client4)
    receive = [sys.executable, "-m", "experiments.probes.flood", "arrivals", address, str(PORT), "0", str(seconds)]
    send = [sys.executable, "-m", "experiments.probes.flood", "send", address, str(PORT)]
    with testbed.client.start("arrivals", receive).wait_until_ready() as receiver:
        testbed.gateway.run(*send, str(bits_per_second), str(seconds + 1))
        receiver.popen.wait(timeout=30)
        arrived: list[int] = receiver.report()["bytes"]
    return arrived


# Those of the papers' experiments are measured by tests/claims.
SEEN = {"bottleneck", "buffer", "delays", "ethernet-wifi", "ireland-california", "slow"}
UNSEEN = [path for path in sorted(PROFILES.glob("*.toml")) if path.stem not in SEEN]


@pytest.mark.parametrize("path", UNSEEN, ids=lambda path: path.stem)
def test_the_links_of_every_profile_are_as_described(name: str, path: Path) -> None:
    with standing(name, load(path, Profile)) as testbed:
        readings = check_links(testbed)
    assert len(readings) == 3 * len(testbed.topology.links)
    assert all(reading.judged for reading in readings)


def test_a_flood_arrives_as_the_trace_says_second_by_second(name: str, tmp_path: Path) -> None:
    # 24 Mbit/s for a second, then 6; the first packet, which starts the clock, comes at any moment of these two.
    fast, slow = [n // 2 + 1 for n in range(2000)], [1000 + 2 * (n + 1) for n in range(500)]
    with standing(name, traced(tmp_path / "two.trace", fast + slow)) as testbed:
        arrived = flood(testbed, 40e6, 6)
    # In each period of two seconds some moment begins the fast second: there the bins fit best.
    offset = max(range(2000), key=lambda start: sum(arrived[start : start + 1000]))
    bins = [sum(arrived[start : start + 1000]) for start in range(offset, offset + 4000, 1000)]
    for number, measured in enumerate(bins):
        assert measured == pytest.approx((3e6, 0.75e6)[number % 2], rel=0.15, abs=PACKET)


def test_nothing_comes_where_the_trace_has_a_gap(name: str, tmp_path: Path) -> None:
    with standing(name, traced(tmp_path / "gap.trace", [*range(1, 201), 700])) as testbed:
        arrived = flood(testbed, 20e6, 3)
    moments = [millisecond for millisecond, size in enumerate(arrived) if size]
    gaps = [later - earlier for earlier, later in pairwise(moments) if later - earlier > 250]
    assert len(gaps) in (3, 4, 5)
    assert gaps == pytest.approx([500] * len(gaps), abs=50)


def test_the_link_check_judges_whole_periods_and_notes_what_lasts_too_long(name: str, tmp_path: Path) -> None:
    with standing(f"{name}a", traced(tmp_path / "short.trace", [*range(1, 301), 400])) as testbed:
        rates = {reading.what: reading.measured for reading in check_links(testbed)}
    assert rates["down_mbps"] == pytest.approx(12 * 301 / 400, rel=TOLERANCE)
    with standing(
        f"{name}b", traced(tmp_path / "long.trace", [*range(1, 10_001), *range(10_010, 30_001, 10)])
    ) as testbed:
        judged = {reading.what: reading.judged for reading in check_links(testbed)}
    assert judged == {"rtt_ms": True, "down_mbps_in_part": False, "up_mbps": True}
