"""Accounts of a day as Prometheus metrics, with a bounded number of series (node_exporter's textfile collector)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from tributary.api.documents import Account
from tributary.daemons.state_file import write_atomic

OTHERS = "others"
"""The client that stands for those that have no series of their own."""
_ALL_MAY_READ = 0o644
_METRICS = (
    ("received_bytes", "received", "Bytes from clients since midnight (UTC)."),
    ("sent_bytes", "sent", "Bytes to clients since midnight (UTC)."),
    ("connections", "connections", "Connections and requests that have ended since midnight (UTC)."),
)


def bounded(accounts: Sequence[Account], most: int) -> list[Account]:
    """Accounts of which ``most`` clients, those with most bytes, have their own; the others are one. Pure."""
    carried: Counter[str | None] = Counter()
    for each in accounts:
        carried[each.client] += each.received + each.sent
    own = {client for client, _ in carried.most_common(most)}
    return [each if each.client in own else each.model_copy(update={"client": OTHERS}) for each in accounts]


def write(file: Path, accounts: Iterable[Account], labels: Sequence[str], now: float) -> None:
    """Write what they come to by ``labels``; ``now`` in seconds since 1970. Raises CommandError, exit 71."""
    registry = CollectorRegistry()
    gauges = [
        (Gauge(f"tributary_accounts_{name}", text, labels, registry=registry), attribute)
        for name, attribute, text in _METRICS
    ]
    for each in accounts:
        values = [getattr(each, label) or "" for label in labels]
        for gauge, attribute in gauges:
            gauge.labels(*values).inc(getattr(each, attribute))
    Gauge("tributary_accounts_time_seconds", "When they were added up, since 1970.", registry=registry).set(now)
    write_atomic(file, generate_latest(registry), _ALL_MAY_READ)
