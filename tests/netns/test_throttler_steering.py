"""A gateway steers running sessions of a client that it does not own: 50 Mbit/s of 20 ms beside a path that loses."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from experiments.testbed.appliance import start_steering, start_throttler
from experiments.testbed.build import Testbed, standing
from experiments.testbed.impairment import lossy
from experiments.testbed.node import Node
from experiments.testbed.topology import Profile
from tests.netns.links_world import Connection, connection, serving_sizes
from tests.netns.world import asked, eventually
from tributary.api.places import THROTTLER
from tributary.settings.files import check

# Of a link that loses the kernel closes a subflow now and then, and another one takes its place.
pytestmark = [pytest.mark.slow, pytest.mark.calm, pytest.mark.flaky(reruns=2)]

PROFILE = check(
    {
        "links": {
            "good": {"rate": "50mbit", "delay": "10ms"},
            "bad": {"rate": "50mbit", "delay": "100ms", "loss": "1%", "queue": 800},
        }
    },
    Profile,
    "profile",
)
PROXY = "10.0.0.1"
RULE = '[[rules]]\nname = "none"\n'
HUGE = 10_000_000_000


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    with standing("steered", PROFILE) as built:
        built.gateway.sysctl(net__mptcp__pm_type=1)
        with serving_sizes(built.gateway):
            yield built


@contextmanager
def downloading(testbed: Testbed) -> Iterator[Connection]:
    """A download that does not end within the test, once the client has joined over its second link."""
    with connection(PROXY, testbed.client) as client:
        client.request(HUGE)
        eventually(lambda: len(flags(testbed.gateway)) == 2)
        yield client


def flags(node: Node) -> dict[str, str]:
    """The flags of each subflow by its path, as ss(8) shows them: b is for a backup that this side asked for, B for one
    that the other side did.
    """
    lines = node.run("ss", "-HtinM", "state", "established").splitlines()
    found = {}
    for place, line in enumerate(lines):
        address, shown = (
            re.search(r"10\.0\.([12])\.2\S*", lines[place - 1]),
            re.search(r"tcp-ulp-mptcp flags:(\w+)", line),
        )
        if shown and address:
            found["good" if address[1] == "1" else "bad"] = shown[1]
    return found


def is_backup(testbed: Testbed) -> bool:
    return "b" in flags(testbed.gateway).get("bad", "")


def came(testbed: Testbed) -> int:
    """Bytes that have come to the client by all links."""
    shown = json.loads(testbed.client.run("ip", "-s", "-j", "link", "show"))
    return sum(each["stats64"]["rx"]["bytes"] for each in shown if each["ifname"] in ("good", "bad"))


def rate(testbed: Testbed, seconds: float = 3.0) -> float:
    """Megabits per second that come to the client."""
    before, begun = came(testbed), time.monotonic()
    time.sleep(seconds)
    return 8e-6 * (came(testbed) - before) / (time.monotonic() - begun)


def decisions(testbed: Testbed) -> dict[str, int]:
    found: dict[str, int] = asked(testbed.gateway.namespace, THROTTLER)["steering"]["decisions"]
    return found


def decided(testbed: Testbed, kind: str) -> int:
    """Decisions of this kind, and those that needed no trial."""
    found = decisions(testbed)
    return found.get(kind, 0) + found.get("backups without a trial", 0)


def test_the_worse_path_becomes_a_backup_at_both_ends_and_is_used_again_when_the_better_one_is_worse(
    testbed: Testbed,
) -> None:
    with start_steering(testbed, "dry") as dry, downloading(testbed):
        eventually(lambda: decided(testbed, "trials"), seconds=30)
        assert not is_backup(testbed)
        before = rate(testbed)
        dry.stop()
        with start_steering(testbed):
            eventually(lambda: decided(testbed, "trials that stayed") and is_backup(testbed), seconds=60)
            assert "B" in flags(testbed.client)["bad"]
            assert "B" not in flags(testbed.client)["good"]
            # What came before a trial was less; without one, there was nothing yet to wait for.
            after = rate(testbed)
            assert after > (1.1 * before if "trials that stayed" in decisions(testbed) else 40)
            assert "MPTcpExtMPPrioRx" in testbed.client.run("nstat", "-sa", "MPTcpExtMPPrioRx")
            token = asked(testbed.gateway.namespace, THROTTLER)["sessions"][0]["token"]
            with testbed.gateway.entered():
                (first, *_) = THROTTLER.ask("explain", ends=[token])["subflows"]
            assert re.search(r"bad \(10\.0\.2\.2\)(, .* with:| is) a backup", first["steering"])
            with lossy(testbed, testbed.topology.links[0], 40):
                eventually(lambda: not is_backup(testbed), seconds=15)


def test_what_a_killed_throttler_leaves_carries_on_and_the_next_one_uses_all_paths_again(testbed: Testbed) -> None:
    with start_steering(testbed) as killed, downloading(testbed):
        eventually(lambda: decided(testbed, "trials that stayed") and is_backup(testbed), seconds=60)
        killed.kill()
        assert is_backup(testbed)
        assert rate(testbed, 1) > 1
        assert "b" not in flags(testbed.gateway)["good"]
        # It has forgotten what it had learned, and looks for itself first.
        with start_steering(testbed):
            eventually(lambda: decisions(testbed).get("left by an earlier run"))


def test_where_it_cannot_steer_it_limits_and_says_what_to_set(testbed: Testbed) -> None:
    testbed.gateway.sysctl(net__mptcp__pm_type=0)
    try:
        with start_steering(testbed) as throttler:
            assert "sysctl net.mptcp.pm_type=1" in throttler.output()
            assert asked(testbed.gateway.namespace, THROTTLER)["steering"]["mode"] == "off"
            with testbed.gateway.entered():
                THROTTLER.ask("set", rule={"name": "one", "path": "bad", "rate": "1mbit"})
                assert "one" not in [rule["name"] for rule in THROTTLER.ask("reload")["rules"]]
            assert throttler.output().count("sysctl net.mptcp.pm_type=1") == 2
            assert asked(testbed.gateway.namespace, THROTTLER)["steering"]["mode"] == "off"
            testbed.gateway.sysctl(net__mptcp__pm_type=1)
            with testbed.gateway.entered():
                THROTTLER.ask("reload")
            eventually(lambda: asked(testbed.gateway.namespace, THROTTLER)["steering"]["mode"] == "on")
    finally:
        testbed.gateway.sysctl(net__mptcp__pm_type=1)


def test_with_the_sniffer_sessions_are_not_steered(testbed: Testbed) -> None:
    policy = testbed.gateway.write(
        "sniffed.toml", '[paths.good]\ninterface = "good"\n[steering]\nmode = "dry"\n' + RULE
    )
    with start_throttler(testbed, policy, "--source", "sniffer") as throttler:
        assert "steering.mode = 'dry' needs sessions that end on this host" in throttler.output()
