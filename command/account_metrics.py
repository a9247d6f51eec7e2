"""Accounts of a day as Prometheus metrics, with a bounded number of series (node_exporter's textfile collector)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from tributary.api.documents import Account
from tributary.daemons import metrics

OTHERS = "others"
"""The client that stands for those that have no series of their own."""
_METRICS = metrics.Metrics("tributary_accounts")
_FIGURES = (
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
    sums: defaultdict[str, Counter[metrics.Labels]] = defaultdict(Counter)
    for each in accounts:
        values = tuple(getattr(each, label) or "" for label in labels)
        for name, attribute, _ in _FIGURES:
            sums[name][values] += getattr(each, attribute)
    gauges = [_METRICS.gauge(name, text, tuple(labels), sums[name].items()) for name, _, text in _FIGURES]
    time = _METRICS.gauge("time_seconds", "When they were added up, since 1970.", (), [((), now)])
    metrics.write(file, [*gauges, time])
