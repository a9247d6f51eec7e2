"""The daemon's status as text, for ``throttler status``.

Each thing is a line of facts; what does not fit folds between facts, never inside one, so that 80 columns do.
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from throttler.service.status import (
    ClassCounters,
    ClassStatus,
    PathStatus,
    QuotaStatus,
    RuleStatus,
    SessionStatus,
    Status,
    SubflowStatus,
)
from tributary.daemons.logs import printable
from tributary.daemons.text import ARROW, age, end, folded, plural, scaled
from tributary.settings.units import Size

NOT_READ = "not read"
"""Shown in place of counters that could not be read."""


def show(status: Status, console: Console) -> None:
    """Print ``status``, folded to the console's width."""
    for line in lines(status, console.width):
        console.print(line, soft_wrap=True, highlight=False)


def lines(status: Status, width: int) -> Iterator[Text]:
    """The whole text, in lines of at most ``width`` columns as far as single facts let them."""
    yield from folded(_summary(status), 0, width)
    for rule in status.rules:
        yield from _block(f"rule {rule.name}", _rule_rows(rule), width)
    for path in status.paths:
        yield from _block(f"path {path.name}", [_path(path)], width)
    if status.classes:
        cut = _cut(len(status.classes), status.classes_total)
        yield from _block(f"classes{cut}", map(_class, status.classes), width)
    for session in status.sessions:
        yield from _block(_session(session), map(_subflow, session.subflows), width)
    yield from _block("counters", _counters(status), width)


def _block(title: str, rows: Iterable[Sequence[str]], width: int) -> Iterator[Text]:
    yield Text()
    yield Text(printable(title), "bold")
    for row in rows:
        yield from folded(row, 2, width)


def _summary(status: Status) -> list[str]:
    return [
        f"policy {status.policy}",
        f"source {status.source}",
        f"up for {age(status.uptime_s)}",
        plural(status.sessions_total, "session") + _cut(len(status.sessions), status.sessions_total),
        plural(status.subflows_total, "subflow"),
        f"{status.throttled_total:,} throttled",
        plural(status.classes_total, "class", "classes"),
    ]


def _cut(shown: int, total: int) -> str:
    return f" (the first {shown:,} shown)" if shown < total else ""


def _rule_rows(rule: RuleStatus) -> Iterator[list[str]]:
    rate = f"{rule.rate} for each {rule.shared_by}" if rule.rate else f"by {rule.shared_by}"
    yield [
        *rule_state(rule),
        rate,
        plural(rule.subflows, "subflow"),
        plural(rule.classes, "class", "classes"),
        f"matched {rule.matches:,} times",
    ]
    if rule.quota:
        yield _quota(rule.quota)


def rule_state(rule: RuleStatus) -> list[str]:
    """A rule's state."""
    return [
        "active" if rule.active else "not active",
        *(["dry run: only counted"] if rule.dry_run else []),
        *(["set at run time"] if rule.runtime else []),
    ]


def _quota(quota: QuotaStatus) -> list[str]:
    return [
        f"quota {Size(quota.bytes)} a {quota.period}",
        f"used {scaled(quota.used, 'B')}",
        f"most by one {scaled(quota.max_used, 'B')}",
        f"exhausted by {quota.exhausted:,}",
    ]


def _path(path: PathStatus) -> list[str]:
    interface = f"interface {path.interface}" + ("" if path.present else " (not there)")
    return [interface, plural(path.subflows, "subflow"), f"{path.throttled:,} throttled"]


def _class(entry: ClassStatus) -> list[str]:
    ceiling = f" up to {entry.ceiling}" if entry.ceiling != entry.rate else ""
    return [
        f"{entry.device} {entry.id}",
        entry.direction,
        f"rule {entry.rule}",
        f"for {entry.owner}",
        f"{entry.rate}{ceiling}",
        plural(entry.subflows, "subflow"),
        *_counted(entry.counters),
    ]


def _counted(counters: ClassCounters | None) -> list[str]:
    if counters is None:
        return [NOT_READ]
    return [
        f"sent {scaled(counters.sent_bytes, 'B')} in {plural(counters.sent_packets, 'packet')}",
        f"dropped {counters.dropped_packets:,}",
        f"backlog {scaled(counters.backlog_bytes, 'B')}",
    ]


def _session(session: SessionStatus) -> str:
    active = plural(session.active_subflows, "active subflow")
    return f"session {session.token}, age {age(session.age_s)}, {active}"


def _subflow(subflow: SubflowStatus) -> list[str]:
    return [
        # Two facts, since two addresses of IPv6 do not fit in 80 columns.
        f"{end(subflow.local, subflow.local_port)} {ARROW}",
        end(subflow.remote, subflow.remote_port),
        f"path {subflow.path}" if subflow.path else f"interface {subflow.interface}",
        *_kind(subflow),
        f"age {age(subflow.age_s)}",
        *_measured(subflow),
        *_held(subflow),
    ]


def _kind(subflow: SubflowStatus) -> list[str]:
    return [
        "initial" if subflow.initial else f"join, address id {subflow.address_id}",
        *(["backup"] if subflow.backup else []),
    ]


def _measured(subflow: SubflowStatus) -> list[str]:
    """The socket's values, if the session ends on this host."""
    return [
        *([f"sent {scaled(subflow.sent_bytes, 'B')}"] if subflow.sent_bytes is not None else []),
        *([f"received {scaled(subflow.received_bytes, 'B')}"] if subflow.received_bytes is not None else []),
        *([f"rtt {subflow.rtt_us / 1000:.1f} ms"] if subflow.rtt_us is not None else []),
    ]


def _held(subflow: SubflowStatus) -> list[str]:
    if not subflow.rule:
        return ["not throttled"]
    if subflow.dry_run:
        return [f"would be throttled by {subflow.rule}"]
    ways = (("download", subflow.download), ("upload", subflow.upload))
    classes = [f"{way} class {name}" for way, name in ways if name]
    return [f"throttled by {subflow.rule}", *classes]


def _counters(status: Status) -> Iterator[list[str]]:
    for name, value in status.counters.items():
        yield [f"{value:>12,}  {name}"]
    for interface, capture in status.capture.items():
        for name, value in vars(capture).items():
            yield [f"{value:>12,}  packets {name} on {interface}"]
