"""The pure parts of the benchmarks of a request hand-off."""

import json
from collections.abc import Mapping

import pytest

from experiments.bench import handoff_soak
from experiments.handoff import clients, running
from experiments.handoff.proxies import PROXIES
from experiments.handoff.shaping import commands
from experiments.scenarios.handoff_sizes import HandoffSizes, even_from
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import quoted
from tributary.settings.errors import CommandError

HTTP = {"a": "10.7.2.2:80", "b": "10.7.3.2:80"}
COSTS = {"teardown_us": 300, "next_us": 900, "rule_us": 20, "rewrite_ns_60": 70, "rewrite_ns_1514": 71}
COSTS |= {"xdp_rewrite_ns_60": 50, "xdp_rewrite_ns_1514": 51}
MBPS = {"handoff": 1900.0, "direct": 1950.0, "nginx": 940.0, "haproxy": 950.0}


def value(point: Point) -> Mapping[str, float]:
    by = point["by"]
    if point.get("what") == "costs":
        return COSTS
    if "size" not in point:
        return {"startup_us": 600 if by == "handoff" else 400, "latency_2mb_us": 17_000 if by == "handoff" else 16_830}
    # A hand-over costs as much as 60 kB take.
    size = int(point["size"])
    share = size / (size + 60_000) if by == "handoff" else 1
    return {"mbps": share * MBPS[by], "front_cpu_ms_per_gb": 100 if by == "handoff" else 1000}


def told(*absent: str) -> dict[str, float]:
    return quoted(HandoffSizes, lambda point: {} if point["by"] in absent else value(point))


def test_ratios_are_to_the_better_proxy_and_to_direct_and_larger_is_better() -> None:
    found = told()
    share = 2000 / 2060
    assert found["throughput_2mb_vs_proxy"] == pytest.approx(share * 2)
    assert found["throughput_2mb_vs_direct"] == pytest.approx(share * 1900 / 1950)
    assert found["front_cpu_saving_2mb"] == pytest.approx(10)
    assert found["latency_2mb_vs_direct"] == pytest.approx(0.99)


def test_values_of_ours_have_plain_names() -> None:
    found = told()
    assert found.items() >= COSTS.items()
    assert (found["startup_us"], found["direct_startup_us"], found["nginx_startup_us"]) == (600, 400, 400)
    # 64 of 124 kB are a little more than a half, which twice the proxy's rate makes up for.
    assert found["even_from_kb"] == 64


def test_without_a_proxy_there_is_nothing_to_be_even_with() -> None:
    found = told("nginx", "haproxy")
    assert "even_from_kb" not in found
    assert "throughput_2mb_vs_proxy" not in found
    assert "throughput_2mb_vs_direct" in found


def test_even_is_from_where_on_no_proxy_is_better_any_more() -> None:
    assert even_from({10: [1.2], 20: [0.9, 1.1], 40: [1.0, 1.3], 80: [2.0, 1.9]}) == 40
    assert even_from({10: [1.2], 20: [0.9]}) is None
    assert even_from({10: []}) is None


def test_clients_side_by_side_are_added_up() -> None:
    one = {"requests": 100, "bytes": 10**8, "microseconds": 10**6, "errors": 0}
    got = clients.told([one, one | {"microseconds": 2 * 10**6, "errors": 3}])
    assert (got.mbps, got.per_second, got.errors) == (1200, 150, 3)


def test_times_belong_to_their_connections() -> None:
    printed = "1 0.001000\n0 0.000500\n1 0.002000\n0 0.000700\n"
    assert clients.grouped(printed, 2) == [[1000, 500], [2000, 700]]
    with pytest.raises(CommandError, match="more than one connection"):
        clients.grouped("1 0.001000\n1 0.000500\n", 2)


def test_each_back_end_has_its_place_in_every_configuration() -> None:
    for proxy in PROXIES.values():
        text = proxy.configuration(HTTP)
        assert all(f"/{name}/" in text and http in text for name, http in HTTP.items())
        assert str(proxy.port) in text
    assert running.rules(("a", "b")).count("[[handoff.rules]]") == 4


def test_a_link_has_one_rate_and_a_bounded_queue() -> None:
    qdisc, one_class, queue = commands("eth0", 10**9)
    assert "htb default 1" in qdisc
    assert "rate 1000000000bit ceil 1000000000bit" in one_class
    assert "bfifo limit" in queue


def test_a_soak_fails_for_a_wrong_answer_and_for_a_broken_connection() -> None:
    counts = {"answers": 100, "bytes": 10**6, "wrong": 0, "connections": 5, "broken": 0, "rested": 0}
    report = counts | {"per_second": 50.0}
    log = '{"outcome":"handed-over"}\n' * 4
    assert handoff_soak.told(report, log)["handed_over"] == 4
    for wrong in ("wrong", "broken"):
        with pytest.raises(CommandError, match=json.dumps(wrong)):
            handoff_soak.told(report | {wrong: 1}, log)
