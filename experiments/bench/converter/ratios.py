"""What the figures of ours and of its peers come to. Pure."""

from collections.abc import Iterator
from statistics import median

from experiments.bench.converter.throughput import value_of
from experiments.bench.parts import BULK, CONNECTIONS, HAPROXY_HTTP, NATIVE, REQUESTS, TUNNEL, UPLOAD
from experiments.study.metrics import RATIO, Metric, ratio
from experiments.study.readings import Readings

_PEERS = {
    BULK: ("squid", "haproxy", "varnish", "relay", "direct"),
    UPLOAD: ("haproxy", "varnish", "relay", "direct"),
    CONNECTIONS: ("nginx", "haproxy", HAPROXY_HTTP, "squid"),
    REQUESTS: ("squid", "nginx", "haproxy", HAPROXY_HTTP, "varnish"),
}
_FORWARDING = ("haproxy", "nginx")
_BEST = ("haproxy", "varnish")
"""Peers whose bulk transfers stand still now and then: ours is held against the best that they can do as well."""


def ratios_of(readings: Readings) -> Iterator[Metric]:
    """Ours to each peer that took part, larger is better, and ``upload_spread``.

    ``bulk_vs_squid`` and the like: the medians of every repetition's own ratio. ``bulk_vs_haproxy_best``: our median to
    the peer's best run of all. ``tunnels_vs_haproxy``, ``tunnels_vs_nginx``: new connections by CONNECT to those that
    they forward. ``upload_spread``: the slowest of our uploads to the fastest, 1 if all were alike.
    """
    for measurement, peers in _PEERS.items():
        these, value = readings.at(measure=measurement), value_of(measurement)
        ours = these.at(by=NATIVE).repeated(value)
        for peer in peers:
            yield ratio(f"{measurement}_vs_{peer}", ours, these.at(by=peer).repeated(value))
    these = readings.at(measure=CONNECTIONS)
    for peer in _FORWARDING:
        yield ratio(f"tunnels_vs_{peer}", *(these.at(by=by).repeated("per_second") for by in (TUNNEL, peer)))
    if bulk := readings.at(measure=BULK, by=NATIVE).values("mbps"):
        for peer in _BEST:
            runs = readings.at(measure=BULK, by=peer).values("mbps")
            yield Metric(f"{BULK}_vs_{peer}_best", [median(bulk) / max(runs)] if runs else [], RATIO)
    if uploads := readings.at(measure=UPLOAD, by=NATIVE).values("mbps"):
        yield Metric(f"{UPLOAD}_spread", [min(uploads) / max(uploads)], RATIO)
