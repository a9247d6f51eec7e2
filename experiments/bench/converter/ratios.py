"""What the figures of ours and of its peers come to. Pure."""

from statistics import median

from experiments.bench.converter.throughput import value_of
from experiments.bench.parts import BULK, CONNECTIONS, NATIVE, REQUESTS, UPLOAD
from experiments.study.figures import ratios
from experiments.study.readings import Readings

_PEERS = {
    BULK: ("squid", "haproxy", "varnish", "relay", "direct"),
    UPLOAD: ("haproxy", "varnish", "relay", "direct"),
    CONNECTIONS: ("nginx", "haproxy", "squid"),
    REQUESTS: ("squid", "nginx", "haproxy", "varnish"),
}
_BEST = ("haproxy", "varnish")
"""Peers whose bulk transfers stand still now and then: ours is held against the best that they can do as well."""


def ratios_of(readings: Readings) -> dict[str, float]:
    """Ours to each peer that took part, larger is better, and ``upload_spread``.

    ``bulk_vs_squid`` and the like: the medians of every repetition's own ratio. ``bulk_vs_haproxy_best``: our median to
    the peer's best run of all.
    """
    return _vs_peers(readings) | _vs_best(readings) | _spread(readings)


def _vs_peers(readings: Readings) -> dict[str, float]:
    found: dict[str, float] = {}
    for measurement, peers in _PEERS.items():
        these = readings.at(measure=measurement)
        compared = {f"{measurement}_vs_{peer}": (these.at(by=NATIVE), these.at(by=peer)) for peer in peers}
        found |= ratios(value_of(measurement), compared)
    return found


def _vs_best(readings: Readings) -> dict[str, float]:
    bulk = readings.at(measure=BULK)
    ours = bulk.at(by=NATIVE).values("mbps")
    theirs = {peer: bulk.at(by=peer).values("mbps") for peer in _BEST}
    return {f"{BULK}_vs_{peer}_best": median(ours) / max(runs) for peer, runs in theirs.items() if ours and runs}


def _spread(readings: Readings) -> dict[str, float]:
    """The slowest of our uploads to the fastest: 1 if all were alike."""
    ours = readings.at(measure=UPLOAD, by=NATIVE).values("mbps")
    return {f"{UPLOAD}_spread": min(ours) / max(ours)} if ours else {}
