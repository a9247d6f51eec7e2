"""A hand-off's switch whose devices' drivers rewrite packets (XDP), and tc where they do not."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.testbed.usage import counters
from tests.netns.handoff_world import SIZE, HandOff, needs_tools, pattern
from tests.netns.world import eventually, needs
from tributary.settings.errors import CommandError

pytestmark = [needs_tools, needs("ethtool")]

ENDS = ("client", "a", "b")


def set_offloads(handoff: HandOff, *features: str) -> None:
    """At the other ends of the switch's cables."""
    for name in ENDS:
        handoff.nodes[name].run("ethtool", "-K", "eth0", *features)


@pytest.fixture
def cables(handoff: HandOff) -> Iterator[HandOff]:
    """Cables as between network cards: who sends computes its checksums, and takes frames from a program (GRO)."""
    set_offloads(handoff, "tx", "off", "gro", "on")
    yield handoff
    set_offloads(handoff, "tx", "on", "gro", "off")


def attached(handoff: HandOff) -> list[str]:
    """The switch's devices whose driver has a program."""
    links = json.loads(handoff.nodes["switch"].run("ip", "-json", "link"))
    return sorted(link["ifname"] for link in links if link.get("xdp", {}).get("mode") == 1)


def redirected(handoff: HandOff, name: str) -> int:
    """Frames that came from a node and that the driver sent on."""
    counters = handoff.nodes["switch"].run("ethtool", "-S", f"to-{name}")
    return sum(map(int, re.findall(r"xdp_redirect: (\d+)", counters)))


def refused(handoff: HandOff) -> int:
    """Segments with a wrong checksum that came anywhere."""
    return sum(counters(handoff.nodes[name])["TcpInCsumErrors"] for name in ENDS)


def fetch(handoff: HandOff, folder: Path) -> dict[str, int]:
    """What a connection gets from both back ends is right; the frames from each node that drivers sent on."""
    handoff.wait_for("a", "b")
    before = {name: redirected(handoff, name) for name in ENDS}
    passed = handoff.passed_front()
    got = handoff.fetch([f"{name}/{SIZE}" for name in "abba"], folder)
    assert got == [pattern(name, SIZE) for name in "abba"]
    assert handoff.passed_front() - passed < SIZE / 10
    return {name: redirected(handoff, name) - before[name] for name in ENDS}


def test_drivers_rewrite_both_ways_what_has_its_checksum_and_tc_what_has_none(cables: HandOff, tmp_path: Path) -> None:
    cables.restart("switch", "--attach", "xdp")
    assert attached(cables) == ["to-a", "to-b", "to-client"]
    wrong = refused(cables)
    segments = 2 * SIZE / 1448
    by_drivers = fetch(cables, tmp_path)
    assert by_drivers["a"] > segments * 0.9 and by_drivers["b"] > segments * 0.9
    assert by_drivers["client"] > 20, "acknowledgements"
    # Checksums are the device's work now, which a cable in memory leaves undone.
    set_offloads(cables, "tx", "on")
    by_drivers = fetch(cables, tmp_path)
    assert sum(by_drivers.values()) < segments * 0.01
    assert refused(cables) == wrong
    cables.kill("switch")
    eventually(lambda: not attached(cables))


def test_where_a_driver_cannot_tc_does_it_unless_that_is_not_wanted(handoff: HandOff, tmp_path: Path) -> None:
    assert "tc rewrites packets" in handoff.processes["switch"].output()
    network = handoff.network
    handoff.processes.pop("switch").stop()
    cannot = r'--attach xdp: device "to-a": it sends out no frames of other devices .*: accepted: auto, tc'
    with pytest.raises(CommandError, match=cannot):
        network.start_switch("--attach", "xdp")
    assert not attached(handoff)
    network.nodes["switch"].ip("link", "add", "plain", "link", "to-front", "type", "macvlan")
    with pytest.raises(CommandError, match='device "plain": its driver has no XDP'):
        network.start_switch("--attach", "xdp", "--back-end", "10.7.99.2:7400=plain")
    network.nodes["switch"].ip("link", "delete", "plain")
    handoff.processes["switch"] = network.start_switch("--attach", "tc")
    assert "XDP" not in handoff.processes["switch"].output()
    assert not attached(handoff)
    assert fetch(handoff, tmp_path) == dict.fromkeys(ENDS, 0)


def test_frames_that_do_not_fit_a_drivers_buffer_are_tcs(cables: HandOff, tmp_path: Path) -> None:
    cables.nodes["a"].ip("link", "set", "eth0", "mtu", "9000")
    try:
        cables.restart("switch")
        assert re.search('tc rewrites packets.*"to-a": its MTU is too large', cables.processes["switch"].output())
        assert not attached(cables)
        fetch(cables, tmp_path)
    finally:
        cables.nodes["a"].ip("link", "set", "eth0", "mtu", "1500")
