"""From what the control plane says to the document for ``tributary`` and the console. Pure."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from overlay.reader.places import filled, places
from tributary.api.parts import Overlay, OverlayHop, OverlayNode

MOST = 64
"""Nodes that are shown: those that are silent before all others."""
_MOST_NAMES = 1024
"""Of nodes that were there: if there are more, those that are gone are forgotten."""
_MOST_LINES = 10
"""Of what the controller refused."""
_ROUNDS = 5
"""Of the chains that are shown, as the ingresses' files have it unless they say otherwise."""

Status = Mapping[str, Any]
Delays = Mapping[tuple[str, str], float]


NOTHING = Overlay(
    uptime=0.0,
    age=None,
    problem=None,
    controller=None,
    computed=None,
    refused=(),
    nodes=(),
    nodes_total=0,
    nodes_up=0,
    hops=(),
)
"""Before the first reading."""


def overlay(status: Status, before: Overlay, known: Collection[str] = ()) -> Overlay:
    """The document of a status; nodes that were there ``before`` and are gone keep their places on the map.

    ``known`` are names of nodes that were there, also of those that were not shown: they count.
    """
    there = status["nodes"]
    gone = [node for node in before.nodes if node.name not in {each["name"] for each in there}]
    away = [node.model_copy(update={"state": "away"}) for node in gone[: MOST // 2]]
    shown = (*_placed(_chosen(there, MOST - len(away)), delays(status)), *away)
    return NOTHING.model_copy(
        update={
            "controller": status["controller"],
            "computed": status["computed_s"],
            "refused": tuple(status["refused"][:_MOST_LINES]),
            "nodes": shown,
            "nodes_total": len(names(status, {*known, *(node.name for node in before.nodes)})),
            "nodes_up": sum(not node["converter_silent"] for node in there),
            "hops": tuple(hops(status, {node.name for node in shown})),
        }
    )


def names(status: Status, known: Collection[str]) -> frozenset[str]:
    """Those of its nodes, and the ``known`` ones."""
    there = frozenset(node["name"] for node in status["nodes"])
    every = there.union(known)
    return every if len(every) <= _MOST_NAMES else there


def _chosen(nodes: Sequence[Status], most: int) -> list[Status]:
    """So many in the order of their names."""
    in_order = sorted(nodes, key=lambda node: (not node["converter_silent"], str(node["name"])))
    return sorted(in_order[:most], key=lambda node: str(node["name"]))


def _placed(listed: Sequence[Status], measured: Delays) -> list[OverlayNode]:
    names = [node["name"] for node in listed]
    points = places(filled(names, measured)) if names else []
    return list(map(_node, listed, points))


def _node(node: Status, point: Collection[float]) -> OverlayNode:
    x, y = point
    return OverlayNode(
        name=node["name"],
        state="silent" if node["converter_silent"] else "up",
        address=node["address"],
        pressure=node["pressure_percent"],
        delays=node["delays"],
        x=round(x, 2),
        y=round(y, 2),
    )


def delays(status: Status) -> Delays:
    """The round-trip times of pairs of nodes in milliseconds: the longer one counts, as for the controller."""
    found: dict[tuple[str, str], float] = {}
    for node in status["nodes"]:
        for peer, delay in node["round_trip_ms"].items():
            pair = _pair(node["name"], peer)
            found[pair] = max(delay, found.get(pair, 0.0))
    return found


def hops(status: Status, shown: Collection[str]) -> list[OverlayHop]:
    """The hops of all ingresses' chains between the nodes that are ``shown``."""
    measured = delays(status)
    counted = Counter(pair for chain in _chains(status) for pair in map(_pair, chain, chain[1:]))
    return [
        OverlayHop(a=a, b=b, rtt=measured[a, b] / 1000 if (a, b) in measured else None, chains=chains)
        for (a, b), chains in sorted(counted.items())
        if a in shown and b in shown
    ]


def _chains(status: Status) -> Iterator[list[str]]:
    for table in status["tables"]:
        for egress, chains in table["chains"].items():
            short = [chain["through"] for chain in chains if chain["rounds"] <= _ROUNDS]
            if short:
                yield [table["ingress"], *short[-1], egress]


def _pair(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)
