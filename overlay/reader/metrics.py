"""The overlay as Prometheus metrics.

Labels are nodes' names, of the nodes that a document shows. What was not read yet has no value; while the overlay
cannot be read, all but ``read`` and the ages are of the last reading.
"""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from tributary.api.parts import Overlay
from tributary.daemons import metrics
from tributary.daemons.metrics import Metrics, Values

_METRICS = Metrics("tributary_overlay")
_NODE, _HOP = ("node",), ("a", "b")


def page(overlay: Overlay) -> bytes:
    """Prometheus' text format 0.0.4 of the document."""
    return metrics.page(_metrics(overlay))


def _metrics(overlay: Overlay) -> Iterator[Metric]:
    is_read = overlay.age is not None
    yield _gauge("uptime_seconds", "Time since the reader's start.", overlay.uptime)
    yield _gauge("read", "Whether the last reading succeeded (1).", float(is_read and overlay.problem is None))
    yield _gauge("reading_age_seconds", "Time since the last reading that succeeded.", overlay.age)
    yield _gauge("computed_age_seconds", "Time since the chains were computed.", overlay.computed)
    counts = {
        "controllers": ("Elected controllers: 1 or 0.", float(overlay.controller is not None)),
        "refused": ("Lines of what the controller refused, up to 10.", len(overlay.refused)),
        "nodes": ("Nodes, also those that are gone.", overlay.nodes_total),
        "nodes_up": ("Nodes whose agent and converter answer.", overlay.nodes_up),
    }
    for name, (text, value) in counts.items():
        yield _gauge(name, text, value if is_read else None)
    states = (((node.name,), float(node.state == "up")) for node in overlay.nodes)
    yield _METRICS.gauge("node_up", "Whether agent and converter of the node answer (1).", _NODE, states)
    pressures: Values = (((node.name,), node.pressure / 100) for node in overlay.nodes if node.state != "away")
    yield _METRICS.gauge("node_pressure_ratio", "Pressure on the node's processors.", _NODE, pressures)
    delays: Values = (((node.name,), node.delays) for node in overlay.nodes if node.state != "away")
    yield _METRICS.gauge("node_delays", "Round-trip times that the node has published.", _NODE, delays)
    times = (((hop.a, hop.b), hop.rtt) for hop in overlay.hops if hop.rtt is not None)
    yield _METRICS.gauge("hop_rtt_seconds", "Round-trip time between two nodes next to each other.", _HOP, times)
    chains: Values = (((hop.a, hop.b), hop.chains) for hop in overlay.hops)
    yield _METRICS.gauge("hop_chains", "Chains that are best for 5 rounds and have the hop.", _HOP, chains)


def _gauge(name: str, text: str, value: float | None) -> Metric:
    return _METRICS.gauge(name, text, (), [] if value is None else [((), value)])
