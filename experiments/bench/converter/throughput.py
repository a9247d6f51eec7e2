"""Bytes, connections and requests a second, and what the figures of ours and of its peers come to."""

import sys
import time
from collections.abc import Iterator
from statistics import median

from experiments.bench.converter.contenders import Route
from experiments.bench.parts import BULK, BULK_MANY, CONNECTIONS, HAPROXY_HTTP, NATIVE, REQUESTS, TUNNEL, UPLOAD
from experiments.study.metrics import RATIO, Metric, ratio
from experiments.study.readings import Point, Readings, name_of
from experiments.testbed import cables
from experiments.testbed.build import Testbed
from tributary.settings.errors import CommandError

_BYTES = (BULK, BULK_MANY, UPLOAD)
_COMMANDS = {CONNECTIONS: "connect", REQUESTS: "requests"}
KINDS = (*_BYTES, *_COMMANDS)
_PEERS = {
    BULK: ("squid", "haproxy", "varnish", "relay", "direct"),
    UPLOAD: ("haproxy", "varnish", "relay", "direct"),
    CONNECTIONS: ("nginx", "haproxy", HAPROXY_HTTP, "squid"),
    REQUESTS: ("squid", "nginx", "haproxy", HAPROXY_HTTP, "varnish"),
}
_FORWARDING = ("haproxy", "nginx")
_BEST = ("haproxy", "varnish")
"""Peers whose bulk transfers stand still now and then: ours is held against the best that they can do as well."""
_CLIENTS = "64"
_PAUSE = 0.2
"""Seconds in which what the last measurement left comes to its end."""
_TRIES = 3
"""Squid 5.7 breaks some uploads off (by MPTCP, at these rates) that it takes when they are tried again."""


def moves_bytes(measurement: str) -> bool:
    """Whether bytes are counted."""
    return measurement in _BYTES


def only_comes_down(measurement: str) -> bool:
    """Whether next to nothing goes from the client to the origin."""
    return measurement in (BULK, BULK_MANY)


def value_of(measurement: str) -> str:
    """The name of what is measured."""
    return "mbps" if moves_bytes(measurement) else "per_second"


def load_of(point: Point, size: int, seconds: float) -> tuple[str, ...]:
    """Arguments of tributary-load: ``size`` bytes over all connections together, or so many ``seconds``."""
    measurement = point["measure"]
    if not moves_bytes(measurement):
        return (_COMMANDS[measurement], "--clients", _CLIENTS, "--seconds", str(seconds))
    connections = int(point.get("connections", "1"))
    each = ("--connections", str(connections), "--bytes", str(size // connections))
    return ("bulk", *each, *(["--upload"] if measurement == UPLOAD else []))


def throughput(testbed: Testbed, point: Point, load: tuple[str, ...], route: Route) -> dict[str, float]:
    """``mbps`` or ``per_second``; nothing of a peer that failed each time. Raises CommandError if ours failed once."""
    time.sleep(_PAUSE)
    for _ in range(_TRIES):
        try:
            told = cables.load(testbed, *load, *route, "--mptcp")
        except CommandError as failure:
            if point["by"] == NATIVE:
                raise
            print(f"{name_of(point)}: failed: {failure}", file=sys.stderr)
            continue
        if told.get("errors"):
            print(f"{name_of(point)}: {told['errors']} errors: {told['first_error']}", file=sys.stderr)
        value = value_of(point["measure"])
        return {value: told["bits_per_second"] / 1e6 if value == "mbps" else float(told[value])}
    return {}


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
