"""What the figures of ours and of its peers come to. Pure."""

from collections.abc import Mapping, Sequence
from statistics import median

from experiments.bench.converter.contenders import NATIVE
from experiments.bench.converter.throughput import BULK, CONNECTIONS, REQUESTS, UPLOAD

_PEERS = {
    BULK: ("squid", "haproxy", "varnish", "relay", "direct"),
    UPLOAD: ("haproxy", "varnish", "relay", "direct"),
    CONNECTIONS: ("nginx", "haproxy", "squid"),
    REQUESTS: ("squid", "nginx", "haproxy", "varnish"),
}
_BEST = ("haproxy", "varnish")
"""Peers whose bulk transfers stand still now and then: ours is held against the best that they can do as well."""

Figures = Mapping[tuple[str, str], Sequence[float]]
"""Each repetition's figure by measurement and contender."""


def ratios(reached: Figures) -> dict[str, float]:
    """Ours to each peer that took part, larger is better, and ``upload_spread``.

    ``bulk_vs_squid`` and the like: the medians of every repetition's own ratio. What stands in one repetition was
    measured within a minute; a machine that others slow down slows both. ``bulk_vs_haproxy_best``: our median to the
    peer's best run of all.
    """
    return _vs_peers(reached) | _vs_best(reached) | _spread(reached)


def _vs_peers(reached: Figures) -> dict[str, float]:
    return {
        f"{measurement}_vs_{peer}": median(ours / theirs for ours, theirs in pairs)
        for measurement, peers in _PEERS.items()
        for peer in peers
        if (pairs := _pairs(reached, measurement, peer))
    }


def _pairs(reached: Figures, measurement: str, peer: str) -> list[tuple[float, float]]:
    """Each repetition's figures, ours and the peer's; fewer where it was given up."""
    return list(zip(reached.get((measurement, NATIVE), ()), reached.get((measurement, peer), ()), strict=False))


def _vs_best(reached: Figures) -> dict[str, float]:
    ours = reached.get((BULK, NATIVE))
    theirs = {peer: reached.get((BULK, peer)) for peer in _BEST}
    return {f"{BULK}_vs_{peer}_best": median(ours) / max(runs) for peer, runs in theirs.items() if ours and runs}


def _spread(reached: Figures) -> dict[str, float]:
    """The slowest of our uploads to the fastest: 1 if all were alike."""
    ours = reached.get((UPLOAD, NATIVE))
    return {f"{UPLOAD}_spread": min(ours) / max(ours)} if ours else {}
