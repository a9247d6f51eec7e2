"""The status as Prometheus metrics.

Labels are names of the settings' links and of tunnels: addresses are none, and neither are the LAN's devices.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from prometheus_client.metrics_core import Metric

from router.links.model import Reason
from tributary.daemons import metrics
from tributary.daemons.metrics import Metrics
from tributary.kernel.state import Octets

_Answer = dict[str, Any]
_Reading = Callable[[_Answer], float | None]
_Counters = Callable[[str], Octets | None]
"""The bytes of an interface; None if it is gone."""

_METRICS = Metrics("tributary_router")
_LINK = ("link",)
_ALLOWED = (None, *Reason)
"""All other reasons are what the settings say (links/policy.py)."""
_GAUGES: Sequence[tuple[str, str, _Reading]] = (
    ("link_up", "Whether the link is up (1) or down (0).", lambda link: link["state"] == "up"),
    ("link_allowed", "Whether its hours and its cap let it be used now (1).", lambda link: link["reason"] in _ALLOWED),
    ("link_standby", "Whether the link works, and waits until it is needed (1).", lambda link: link["standby"]),
    ("link_state_seconds", "Time since the link came up or went down.", lambda link: link["state_age_s"]),
    ("link_rank", "Its place among the links: sessions begin on the first that works.", lambda link: link["rank"]),
    ("link_endpoints", "MPTCP endpoints of the link.", lambda link: len(link["endpoints"])),
    ("link_rtt_seconds", "Round-trip time of the last probe that was answered.", lambda link: _seconds(link["probe"])),
    ("link_mtu_bytes", "The largest packet that was found to pass.", lambda link: link["mtu"]),
    ("link_cap_bytes", "Bytes that the link may carry in a month.", lambda link: _of(link["cap"], "bytes")),
    ("link_cap_used_bytes", "Bytes of the cap that are used.", lambda link: _of(link["cap"], "used_bytes")),
)
_COUNTERS: Sequence[tuple[str, str, _Reading]] = (
    ("link_probes", "Probes of the link that have ended.", lambda link: _of(link["probe"], "probes")),
    ("link_unanswered_probes", "Those without an answer.", lambda link: _of(link["probe"], "unanswered")),
)
_DIRECTIONS = ("download", "upload")


def page(status: _Answer, counters: _Counters) -> bytes:
    """Prometheus' text format 0.0.4 of a status."""
    return metrics.page(_metrics(status, counters))


def _metrics(status: _Answer, counters: _Counters) -> Iterator[Metric]:
    links, gateway = status["wan"], status["gateway"]
    yield _METRICS.gauge("uptime_seconds", "Time since the daemon's start.", (), [((), status["uptime_s"])])
    for name, text, reading in _GAUGES:
        yield _METRICS.gauge(name, text, _LINK, _values(links, reading))
    for name, text, reading in _COUNTERS:
        yield _METRICS.counter(name, text, _LINK, _values(links, reading))
    yield _METRICS.gauge(
        "link_shaped_bytes_per_second", "Rate that the link is held to now.", ("link", "direction"), _shaped(links)
    )
    yield from _bytes("link", "Bytes that the link's interface", _LINK, _interfaces(links), counters)
    answers = [] if gateway is None or gateway["answers"] is None else [((), float(gateway["answers"]))]
    yield _METRICS.gauge("gateway_answers", "Whether the gateway answers through the tunnels (1).", (), answers)
    first = [] if gateway is None else [((), float(gateway["earlier"] is None))]
    yield _METRICS.gauge("gateway_first", "Whether the gateway is the settings' first (1).", (), first)
    yield from _bytes("tunnel", "Bytes that the tunnel", ("tunnel", "link"), _tunnels(links, gateway), counters)


def _values(links: Sequence[_Answer], reading: _Reading) -> Iterator[tuple[metrics.Labels, float]]:
    for link in links:
        if (value := reading(link)) is not None:
            yield (link["name"],), float(value)


def _shaped(links: Sequence[_Answer]) -> Iterator[tuple[metrics.Labels, float]]:
    """In bytes, which are Prometheus' base unit."""
    for link in links:
        for direction in _DIRECTIONS:
            if rate := _of(link["shaper"], direction):
                yield (link["name"], direction), rate / 8


def _interfaces(links: Sequence[_Answer]) -> dict[metrics.Labels, str]:
    return {(link["name"],): link["interface"] for link in links if link["interface"]}


def _tunnels(links: Sequence[_Answer], gateway: _Answer | None) -> dict[metrics.Labels, str]:
    named = [(link["name"], link["tunnel"]) for link in links]
    # That for everything else is over whichever link is best.
    named += [("", gateway["default_tunnel"])] if gateway else []
    return {(tunnel["interface"], link): tunnel["interface"] for link, tunnel in named if tunnel}


def _bytes(
    name: str, text: str, labels: metrics.Labels, interfaces: dict[metrics.Labels, str], counters: _Counters
) -> Iterator[Metric]:
    found = {key: octets for key, interface in interfaces.items() if (octets := counters(interface))}
    sent = [(key, float(octets.sent)) for key, octets in found.items()]
    received = [(key, float(octets.received)) for key, octets in found.items()]
    yield _METRICS.counter(f"{name}_sent_bytes", f"{text} has sent.", labels, sent)
    yield _METRICS.counter(f"{name}_received_bytes", f"{text} has received.", labels, received)


def _of(part: _Answer | None, key: str) -> float | None:
    return part[key] if part else None


def _seconds(probe: _Answer | None) -> float | None:
    milliseconds = _of(probe, "rtt_ms")
    return None if milliseconds is None else milliseconds / 1000
