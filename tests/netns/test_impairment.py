"""Packets that get lost, and addresses that go and come, while a testbed stands."""

import re

import pytest

from experiments.testbed.build import Testbed
from experiments.testbed.impairment import lossy, other_address, without_address


def lost(testbed: Testbed, address: str, count: int) -> float:
    """The share of pings to the gateway, from 0 to 1, that got no answer."""
    command = ("ping", "-n", "-q", "-c", str(count), "-i", "0.002", "-W", "1", address)
    printed = testbed.client.run("sh", "-c", f"{' '.join(command)} || true")
    found = re.search(r"([\d.]+)% packet loss", printed)
    assert found
    return float(found[1]) / 100


def shown(testbed: Testbed) -> list[str]:
    """All that an impairment could change on the two nodes."""
    inquiries = ("address show", "rule show", "route show table all", "mptcp endpoint show")
    told = [testbed.client.ip("-o", *inquiry.split()) for inquiry in inquiries]
    told[-1] = re.sub(r"id \d+ ", "", told[-1])
    rulesets = [end.run("nft", "list", "ruleset") for end in (testbed.client, testbed.gateway)]
    return ["\n".join(sorted(text.splitlines())) for text in told] + rulesets


def test_a_black_hole_swallows_all_of_one_link_and_nothing_of_the_other(testbed: Testbed) -> None:
    wired = testbed.topology.links[0]
    before = shown(testbed)
    # The neighbours are known: an inquiry that the black hole swallows is put again a second later.
    assert lost(testbed, "10.0.1.1", 5) == lost(testbed, "fd00:0:0:1::1", 5) == 0
    with lossy(testbed, wired):
        assert lost(testbed, "10.0.1.1", 5) == lost(testbed, "fd00:0:0:1::1", 5) == 1
        assert lost(testbed, "10.0.2.1", 5) == 0
    assert lost(testbed, "10.0.1.1", 5) == 0
    assert shown(testbed) == before


@pytest.mark.calm
def test_a_lossy_link_loses_its_share_each_way(testbed: Testbed) -> None:
    wired = testbed.topology.links[0]
    assert lost(testbed, "10.0.1.1", 5) == 0
    # While a neighbour is asked for, and questions get lost as well, no packet is sent at all.
    for end, other in ((testbed.client, wired.gateway4), (testbed.gateway, wired.client4)):
        end.ip("neighbor", "change", str(other), "dev", wired.name, "nud", "permanent")
    with lossy(testbed, wired, 50):
        share = lost(testbed, "10.0.1.1", 1000)
    assert 0.69 < share < 0.81  # 1 - 0.5 * 0.5, +- 4 standard deviations of 1,000 trials


def test_a_black_hole_ends_with_a_block_that_fails(testbed: Testbed) -> None:
    before = shown(testbed)
    with pytest.raises(KeyError), lossy(testbed, testbed.topology.links[0]):
        raise KeyError
    assert shown(testbed) == before


def test_an_address_goes_and_another_one_comes(testbed: Testbed) -> None:
    wireless = testbed.topology.links[1]
    before = shown(testbed)
    with without_address(testbed, wireless):
        assert "10.0.2." not in testbed.client.ip("address", "show", "dev", "wireless")
        assert "10.0.2." not in testbed.client.ip("mptcp", "endpoint", "show")
        with other_address(testbed, wireless, "10.0.2.3"):
            assert "10.0.2.3 " in testbed.client.ip("mptcp", "endpoint", "show")
            testbed.client.run("ping", "-n", "-c", "1", "-W", "2", "-I", "10.0.2.3", "203.0.113.2")
    testbed.client.run("ping", "-n", "-c", "1", "-W", "2", "-I", "10.0.2.2", "203.0.113.2")
    assert shown(testbed) == before
