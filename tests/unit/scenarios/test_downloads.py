"""Verdicts on downloads and requests: over each link, over both, beside others, through a converter."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.scenarios import shared_bottleneck
from experiments.scenarios.conversion_delay import ConversionDelay
from experiments.scenarios.latency import Latency
from experiments.scenarios.legacy import Legacy
from experiments.scenarios.multipath import Multipath
from experiments.scenarios.shared_bottleneck import SharedBottleneck
from experiments.study.readings import Point, Readings
from experiments.testbed.build import Testbed
from experiments.testbed.topology import Topology
from tests.refusals import command_error
from tests.unit.scenarios.made_up import at, but, claims_test, differing, drawn, failed, judged, readings, topology
from tests.unit.test_demo import download
from tributary.settings.errors import Exit


def legacy(point: Point) -> dict[str, float]:
    mbps = {"wired": 95.0, "wireless": 19.0}[point["link"]]
    return {"seconds": 400 / mbps, "mbps": mbps, "steady_mbps": mbps}


test_claims_on_legacy = claims_test(
    Legacy,
    legacy,
    at("link=wireless,family=ipv6", "TCP over wireless fills it (ipv6)", steady_mbps=17.9),
    at("link=wired,family=ipv4", "TCP over wired fills it (ipv4)", steady_mbps=89),
    panels=2,
)


def test_a_reading_at_every_point_is_needed() -> None:
    some = Readings(each for each in readings(Legacy, legacy) if each.point["family"] == "ipv4")
    with pytest.raises(KeyError):
        list(Legacy().judge(topology(Legacy), some))


def test_points_follow_the_links() -> None:
    links = topology(Legacy).links
    assert len(Legacy().points(Topology((*links, replace(links[0], name="third"))))) == 6


def multipath(point: Point) -> dict[str, float]:
    """What 100 and 20 Mbit/s give: 95 and 19 alone, 112 together."""
    if point["by"] != "legacy":
        return {"seconds": 3.6, "mbps": 110, "steady_mbps": 112, "wired_bytes": 42e6, "wireless_bytes": 8e6}
    mbps = {"wired": 95.0, "wireless": 19.0}[point["link"]]
    return {"seconds": 400 / mbps, "mbps": mbps, "steady_mbps": mbps, f"{point['link']}_bytes": 50e6}


def test_a_second_link_that_is_full_differs_from_the_paper_and_fails_nothing() -> None:
    idle = "the slower one is hardly used"
    assert {claim.partition(" (")[0] for claim in differing(Multipath, multipath)} == {idle}
    unused = but(multipath, {}, wireless_bytes=1e6)
    assert not any(claim.startswith(idle) for claim in differing(Multipath, lambda point: dict(unused(point))))


test_claims_on_multipath = claims_test(
    Multipath,
    multipath,
    at("by=squid,family=ipv4", "they reach 90 % of the paths' sum (squid, ipv4)", steady_mbps=100),
    at(
        "by=native,family=ipv6",
        "both paths together beat the best one (native, ipv6)",
        "they reach 90 % of the paths' sum (native, ipv6)",
        steady_mbps=94,
    ),
    at("by=native,family=ipv4", "the better path carries most (native, ipv4)", wired_bytes=24e6, wireless_bytes=26e6),
    panels=2,
)


COUPLED = "a session of two subflows has no more than legacy TCP, as coupled congestion control would have it"


def shared(point: Point) -> dict[str, float]:
    """A half with one subflow, two thirds with two."""
    share = {"1": 50.0, "2": 66.0}[point["subflows"]]
    return {"seconds": 20.0, "session_mbps": share / 5, "legacy_mbps": 20 - share / 5, "share_percent": share}


test_claims_on_shared = claims_test(
    SharedBottleneck,
    shared,
    at("subflows=1", "a session of one subflow has as much as legacy TCP beside it", share_percent=70.0),
    at("subflows=2", "it has what two connections have beside one", share_percent=95.0),
    panels=2,
)


def test_a_kernel_that_couples_subflows_holds_the_papers_claim() -> None:
    assert differing(SharedBottleneck, shared) == [COUPLED]
    coupled = but(shared, {"subflows": "2"}, share_percent=52.0)
    assert (differing(SharedBottleneck, coupled), failed(SharedBottleneck, coupled)) == ([], [])


def test_a_warm_up_that_takes_it_all_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shared_bottleneck, "_allow", lambda *_: None)
    monkeypatch.setattr(shared_bottleneck, "fetched", lambda *_: download("any", 4.0, 40_000_000, 10_000_000))
    testbed = Testbed("none", topology(SharedBottleneck), tmp_path, "netem")
    experiment = SharedBottleneck(seconds=6.0, warm_up=5.0)
    with command_error(Exit.USAGE, "a larger size, or a shorter warm_up"):
        experiment.measure(testbed, experiment.points(testbed.topology)[0], 1)


def conversion(point: Point) -> dict[str, float]:
    median = {"native": 90.0, "squid": 700.0}[point["by"]]
    shares = {"p50_us": median, "p95_us": 2 * median, "p99_us": 3 * median, "count": 500.0}
    kinds = ("own_syn", "first_data", "data", "reply")
    return {f"{kind}_{share}": value for kind in kinds for share, value in shares.items()}


test_claims_on_conversion = claims_test(
    ConversionDelay,
    conversion,
    at("family=ipv6,by=squid", "a SYN is converted in 5 ms, in the median (squid, ipv6)", own_syn_p50_us=5100.0),
    at("family=ipv6,by=native", "a request is converted in 1 ms, in the median (native, ipv6)", data_p50_us=1100.0),
    at(
        "family=ipv6,by=native",
        "the native converter takes no longer over a SYN than Squid (ipv6)",
        own_syn_p50_us=800.0,
    ),
    panels=1,
)


MEDIANS = {
    "idle": 21.5,
    "bulk": 39.0,
    "bulk-fair-queue": 22.5,
    "bulk-throttled": 21.3,
    "bulk-throttled-long-queue": 21.4,
}


def latency(point: Point) -> Mapping[str, float]:
    """On idle links 20 ms and a little; with a filled queue 9 ms more, twice."""
    middle = MEDIANS[point["load"]]
    spread = {f"p{percent}_ms": middle + percent / 50 - 1 for percent in (5, 25, 50, 75, 95)}
    return {**spread, "max_ms": middle + 3, "count": 100, "bulk_mbps": 23, "held_rtt_ms": 22}


def without_fq_codel(point: Point) -> Mapping[str, float]:
    return {} if point["load"] == "bulk-fair-queue" else latency(point)


test_claims_on_latency = claims_test(
    Latency,
    latency,
    at("load=bulk,converter=native,request=legacy", "a bulk download makes requests wait (native, legacy)", p50_ms=26),
    at("load=bulk-fair-queue,converter=squid,request=legacy", "fair queues spare them that (squid, legacy)", p50_ms=27),
    at(
        "load=bulk-throttled,converter=native,request=legacy",
        "behind one that is held they do not wait (native, legacy)",
        p50_ms=27,
    ),
    at(
        "load=bulk-throttled-long-queue,converter=squid,request=multipath",
        "nor do they with a long queue in the held class (squid, multipath)",
        p50_ms=27,
    ),
    at(
        "load=bulk-throttled-long-queue,converter=native,request=legacy",
        "nor does the held subflow (native, legacy)",
        held_rtt_ms=65,
    ),
    panels=4,
)


def test_what_a_kernel_without_fair_queues_could_not_measure_is_not_judged() -> None:
    verdicts = judged(Latency, without_fq_codel)
    assert all(verdict.holds for verdict in verdicts)
    assert len(verdicts) == len(judged(Latency, latency)) - 4
    assert not [verdict for verdict in verdicts if verdict.claim.startswith("fair queues")]
    assert len(drawn(Latency, without_fq_codel).axes) == 4
