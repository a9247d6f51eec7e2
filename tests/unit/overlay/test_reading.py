from math import dist
from typing import Any

import pytest

from overlay.reader.reading import NOTHING, names, overlay


def node(name: str, **round_trip_ms: float) -> dict[str, Any]:
    known = {"converter_silent": False, "address": f"{name}:5460", "pressure_percent": 0, "delays": len(round_trip_ms)}
    return {"name": name, "round_trip_ms": round_trip_ms, **known}


def status(*nodes: dict[str, Any], chains: dict[str, Any] | None = None) -> dict[str, Any]:
    tables = [{"ingress": nodes[0]["name"], "chains": chains}] if chains else []
    return {"controller": "c1", "computed_s": 2, "refused": [], "nodes": list(nodes), "tables": tables}


LINE = node("a", b=10, c=30), node("b", a=12), node("c", b=20)
"""On a line; the longer of a pair's two measurements counts."""


def test_distances_on_the_map_are_delays_and_nodes_that_nobody_has_measured_have_places_too() -> None:
    a, b, c = ((each.x, each.y) for each in overlay(status(*LINE), NOTHING).nodes)
    assert dist(a, b) == pytest.approx(12, abs=1)
    assert dist(b, c) == pytest.approx(20, abs=1)
    assert dist(a, c) == pytest.approx(31, abs=1.5)
    assert len(overlay(status(node("a"), node("b"), node("c", a=5)), NOTHING).nodes) == 3
    assert overlay(status(node("a")), NOTHING).nodes[0].x == 0
    assert overlay(status(), NOTHING).nodes == ()


def test_hops_are_those_of_the_chains_for_five_rounds() -> None:
    chains = [{"rounds": 1, "through": []}, {"rounds": 4, "through": ["b"]}, {"rounds": 6, "through": []}]
    seen = overlay(status(*LINE, chains={"c": chains, "b": chains[:1]}), NOTHING)
    assert [(hop.a, hop.b, hop.rtt, hop.chains) for hop in seen.hops] == [("a", "b", 0.012, 2), ("b", "c", 0.02, 1)]


def test_an_egress_without_a_chain_for_five_rounds_has_no_hops() -> None:
    seen = overlay(status(*LINE, chains={"b": [], "c": [{"rounds": 6, "through": []}]}), NOTHING)
    assert (len(seen.nodes), seen.hops) == (3, ())


def test_a_node_that_is_gone_is_away_where_it_was_until_it_is_back() -> None:
    before = overlay(status(*LINE), NOTHING)
    seen = overlay(status(*LINE[:2]), before)
    assert [(each.name, each.state) for each in seen.nodes] == [("a", "up"), ("b", "up"), ("c", "away")]
    assert (seen.nodes[2].x, seen.nodes[2].y) == (before.nodes[2].x, before.nodes[2].y)
    assert (seen.nodes_up, seen.nodes_total) == (2, 3)
    assert [each.state for each in overlay(status(*LINE), seen).nodes] == ["up"] * 3


def test_of_many_nodes_the_first_are_shown() -> None:
    seen = overlay(status(*(node(f"n{number:03}", n000=number) for number in range(1, 100))), NOTHING)
    assert (len(seen.nodes), seen.nodes_total, seen.nodes_up) == (64, 99, 99)


def many(*silent: int) -> list[dict[str, Any]]:
    """A hundred nodes of which these are ``silent``."""
    return [node(f"n{number:03}") | {"converter_silent": number in silent} for number in range(100)]


def test_of_many_nodes_those_that_are_silent_are_shown_whatever_their_names() -> None:
    seen = overlay(status(*many(70, 99)), NOTHING)
    assert [each.name for each in seen.nodes if each.state == "silent"] == ["n070", "n099"]
    assert [each.name for each in seen.nodes][60:] == ["n060", "n061", "n070", "n099"]
    assert (len(seen.nodes), seen.nodes_total, seen.nodes_up) == (64, 100, 98)
    assert "n099" not in {each.name for each in overlay(status(*many()), seen).nodes}


def test_a_node_that_was_silent_before_it_is_gone_is_away() -> None:
    seen = overlay(status(*many()[:99]), overlay(status(*many(99)), NOTHING))
    assert [each.name for each in seen.nodes if each.state == "away"] == ["n099"]


def test_a_node_that_is_gone_counts_though_it_was_never_shown() -> None:
    first = status(*many())
    seen = overlay(status(*many()[:99]), overlay(first, NOTHING), names(first, ()))
    assert (len(seen.nodes), seen.nodes_total, seen.nodes_up) == (64, 100, 99)


def test_of_ever_new_nodes_those_that_are_gone_are_forgotten() -> None:
    known: frozenset[str] = frozenset()
    for number in range(2000):
        known = names(status(node(f"n{number}")), known)
    assert len(known) <= 1024
