"""``throttler watch``: the status, asked again and again, with rates from the differences between two of them.

In a terminal a live view, sorted by rate and cut to its height; into a pipe one line an interval.
"""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from throttler.service.status import ClassStatus, QuotaStatus, RuleStatus, SessionStatus, Status, SubflowStatus
from throttler.status_text import NOT_READ, rule_state
from tributary.daemons.logs import printable, timestamp
from tributary.daemons.text import age, end, plural, scaled
from tributary.settings.errors import CommandError
from tributary.settings.units import Duration

_REFRESH = 4
"""Times a second that the terminal's size is checked."""
_BAR = 10
"""Columns of a quota's bar."""


class Interval(Duration):
    """Time between two requests to the daemon, in microseconds."""

    ACCEPTED = "a time with its unit (ms, s) from '100ms' to '3600s', such as '1s'"

    @classmethod
    def parse(cls, text: object) -> "Interval":
        """Read ``text``; raises ValueError that says what is accepted."""
        interval = super().parse(text)
        if not 10**5 <= interval.amount <= 3600 * 10**6:
            raise ValueError(cls.ACCEPTED)
        return interval


@dataclass(frozen=True)
class SubflowRow:
    """A subflow; rates in bit/s, None where they are not known."""

    name: str
    facts: str
    sent: float | None
    received: float | None


@dataclass(frozen=True)
class SessionRow:
    """A session and its subflows, the fastest first."""

    token: str
    age: float
    subflows: tuple[SubflowRow, ...]

    @property
    def sent(self) -> float | None:
        """Bit/s to the client."""
        return total(subflow.sent for subflow in self.subflows)

    @property
    def received(self) -> float | None:
        """Bit/s from the client."""
        return total(subflow.received for subflow in self.subflows)


@dataclass(frozen=True)
class ClassRow:
    """A class: ``sent`` in bit/s, ``drops`` in packets a second; ``backlog`` is None if it could not be read."""

    name: str
    direction: str
    rule: str
    owner: str
    rate: str
    sent: float | None
    drops: float | None
    backlog: int | None


@dataclass(frozen=True)
class Rows:
    """All that a view shows, the fastest first."""

    sessions: tuple[SessionRow, ...]
    classes: tuple[ClassRow, ...]

    def through(self, direction: str) -> float | None:
        """Bit/s through all classes of one direction."""
        return total(row.sent for row in self.classes if row.direction == direction)


def total(rates: Iterable[float | None]) -> float | None:
    """The sum of those that are known; None if none is."""
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def rows(before: Status | None, after: Status) -> Rows:
    """The rates between two statuses of one daemon; without a first one no rate is known."""
    # The daemon's own clock: the time that an answer takes on its way does not matter.
    seconds = after.uptime_s - before.uptime_s if before else 0.0
    known = before if seconds > 0 else None
    old_classes = {_class_key(entry): entry for entry in known.classes} if known else {}
    old_subflows = {_subflow_key(token, subflow): subflow for token, subflow in _subflows(known)} if known else {}
    classes = [_class_row(entry, old_classes.get(_class_key(entry)), seconds) for entry in after.classes]
    sessions = [_session_row(session, old_subflows, seconds) for session in after.sessions]
    return Rows(
        tuple(sorted(sessions, key=lambda row: _fastest_first(row.sent, row.received, row.token))),
        tuple(sorted(classes, key=lambda row: _fastest_first(row.sent, None, row.name))),
    )


def _fastest_first(sent: float | None, received: float | None, name: str) -> tuple[float, str]:
    return -(sent or 0) - (received or 0), name


def _subflows(status: Status) -> Iterator[tuple[str, SubflowStatus]]:
    return ((session.token, subflow) for session in status.sessions for subflow in session.subflows)


def _subflow_key(token: str, subflow: SubflowStatus) -> Hashable:
    return token, subflow.local, subflow.local_port, subflow.remote, subflow.remote_port


def _class_key(entry: ClassStatus) -> Hashable:
    # The id alone would do for one class at a time; a class that went gives its id to another one.
    return entry.device, entry.id, entry.rule, entry.owner


def _growth(before: int | None, after: int | None, seconds: float) -> float | None:
    """A second's growth of a counter; None where it is not known or was set back."""
    if before is None or after is None or after < before:
        return None
    return (after - before) / seconds


def _bits(before: int | None, after: int | None, seconds: float) -> float | None:
    rate = _growth(before, after, seconds)
    return None if rate is None else rate * 8


def _class_row(entry: ClassStatus, before: ClassStatus | None, seconds: float) -> ClassRow:
    old, new = before.counters if before else None, entry.counters
    return ClassRow(
        f"{entry.device} {entry.id}",
        entry.direction,
        entry.rule,
        entry.owner,
        entry.rate,
        _bits(old.sent_bytes, new.sent_bytes, seconds) if old and new else None,
        _growth(old.dropped_packets, new.dropped_packets, seconds) if old and new else None,
        new.backlog_bytes if new else None,
    )


def _session_row(session: SessionStatus, old: Mapping[Hashable, SubflowStatus], seconds: float) -> SessionRow:
    token = session.token
    found = [_subflow_row(subflow, old.get(_subflow_key(token, subflow)), seconds) for subflow in session.subflows]
    found.sort(key=lambda row: _fastest_first(row.sent, row.received, row.name))
    return SessionRow(token, session.age_s, tuple(found))


def _subflow_row(subflow: SubflowStatus, before: SubflowStatus | None, seconds: float) -> SubflowRow:
    limited = f"{'dry run ' if subflow.dry_run else ''}{subflow.rule}" if subflow.rule else "not throttled"
    facts = [subflow.path or subflow.interface, *(["backup"] if subflow.backup else []), limited]
    if subflow.rtt_us is not None:
        facts.append(f"{subflow.rtt_us / 1000:.1f} ms")
    return SubflowRow(
        end(subflow.remote, subflow.remote_port),
        ", ".join(facts),
        _bits(before.sent_bytes, subflow.sent_bytes, seconds) if before else None,
        _bits(before.received_bytes, subflow.received_bytes, seconds) if before else None,
    )


def screen(status: Status, table: Rows, width: int, height: int) -> list[Text]:
    """At most ``height`` lines of ``width`` columns: totals, rules, classes, sessions."""
    head = [_title(status), _totals(status, table)]
    rules = [_rule_line(rule) for rule in status.rules]
    classes = [_class_line(row) for row in table.classes]
    sessions = [line for row in table.sessions for line in _session_lines(row)]
    room = max(0, height - len(head))
    # Rules and classes may take a quarter each; what they leave is the sessions'.
    shown = [*head, *_section("RULES", rules, max(3, room // 4)), *_section("CLASSES", classes, max(3, room // 4))]
    shown += _section("SESSIONS, to and from the client", sessions, height - len(shown))
    for line in shown:
        line.truncate(width, overflow="ellipsis")
    return shown[:height]


def _section(title: str, lines: list[Text], height: int) -> list[Text]:
    """A title and what has room below it; the last line then says how many more there are."""
    if not lines or height < 2:
        return []
    room = height - 1
    if len(lines) > room:
        more = Text(f"  and {plural(len(lines) - room + 1, 'more line')}", "dim")
        lines = [*lines[: room - 1], more]
    return [Text(title, "bold"), *lines]


def _title(status: Status) -> Text:
    return Text(printable(f"{status.policy}, source {status.source}, up for {age(status.uptime_s)}"))


def _totals(status: Status, table: Rows) -> Text:
    unread = f" ({status.unread_classes:,} {NOT_READ})" if status.unread_classes else ""
    return Text(
        f"{plural(status.sessions_total, 'session')}, {plural(status.subflows_total, 'subflow')}, "
        f"{status.throttled_total:,} throttled, {plural(status.classes_total, 'class', 'classes')}{unread}: "
        f"down {_rate(table.through('download'))}, up {_rate(table.through('upload'))}"
    )


def _rate(rate: float | None) -> str:
    return "-" if rate is None else scaled(rate, "bit/s")


def _rule_line(rule: RuleStatus) -> Text:
    line = Text(printable(f"  {rule.name:<16} {rule.rate or '-':>9}  {plural(rule.subflows, 'subflow')}, "))
    line.append(", ".join(rule_state(rule)), "" if rule.active else "dim")
    if rule.quota:
        line.append(f"  {quota_bar(rule.quota)}")
    return line


def quota_bar(quota: QuotaStatus) -> str:
    """A bar of the share that the owner with the highest usage has used."""
    share = quota.max_used / quota.bytes if quota.bytes else 1.0
    full = min(_BAR, int(share * _BAR))
    return f"[{'#' * full}{'.' * (_BAR - full)}] {share:.0%} of {scaled(quota.bytes, 'B')} a {quota.period}"


def _class_line(row: ClassRow) -> Text:
    way = "up" if row.direction == "upload" else "down"
    sent = NOT_READ if row.backlog is None else _rate(row.sent)
    drops = "-" if row.drops is None else f"{row.drops:,.0f}"
    backlog = [] if row.backlog is None else [f"backlog {scaled(row.backlog, 'B')}"]
    line = Text(f"  {sent:>11} of {row.rate:<8} {drops:>6} drops/s ", "yellow" if row.drops else "")
    return line.append(printable(f" {way:<4} " + ", ".join([row.name, row.rule, row.owner, *backlog])))


def _session_lines(row: SessionRow) -> Iterator[Text]:
    head = f"  {_rate(row.sent):>11} {_rate(row.received):>11}  {row.token}, age {age(row.age)}"
    yield Text(printable(head), "bold")
    for subflow in row.subflows:
        line = f"  {_rate(subflow.sent):>11} {_rate(subflow.received):>11}    {subflow.name}, {subflow.facts}"
        yield Text(printable(line))


def plain_line(now: float, status: Status, table: Rows) -> str:
    """One line for a pipe; ``now`` in seconds since 1970, rates in bit/s.

    ``unread`` is there only if some classes could not be read: then these are not in the rates.
    """
    figures: dict[str, float | None] = {
        "sessions": status.sessions_total,
        "subflows": status.subflows_total,
        "throttled": status.throttled_total,
        "classes": status.classes_total,
        "download": table.through("download"),
        "upload": table.through("upload"),
        "drops": total(row.drops for row in table.classes),
        "sent": total(row.sent for row in table.sessions),
        "received": total(row.received for row in table.sessions),
        **({"unread": status.unread_classes} if status.unread_classes else {}),
    }
    return " ".join([timestamp(now), *(f"{name}={_plain(value)}" for name, value in figures.items())])


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


class View:
    """What the terminal shows now; rich asks again for each refresh, so that a new size counts at once."""

    def __init__(self) -> None:
        self._before: Status | None = None
        self._last: tuple[Status, Rows] | None = None
        self._failure = ""

    def take(self, status: Status) -> Rows:
        """Take a new status; returns the rates since the last one."""
        table = rows(self._before, status)
        self._before = status
        # One assignment: the refresh runs in a thread of rich's.
        self._last, self._failure = (status, table), ""
        return table

    def fail(self, failure: str) -> None:
        """Take a failure in place of a status."""
        self._before, self._failure = None, failure

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        notice = [Text(printable(f"{self._failure}: retrying"), "bold red")] if self._failure else []
        last = self._last
        body = screen(*last, options.max_width, height - len(notice)) if last else []
        yield Text("\n", no_wrap=True, overflow="ellipsis").join([*notice, *body])


def watch(
    ask: Callable[[], Status],
    interval: Interval,
    console: Console,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> None:
    """Show the status from ``ask`` until Ctrl-C; a CommandError is shown too, and the request repeated."""
    view = View()
    with suppress(KeyboardInterrupt):
        if console.is_terminal:
            with Live(view, console=console, screen=True, refresh_per_second=_REFRESH) as live:
                for _ in _answers(ask, view, interval, sleep):
                    live.refresh()
        else:
            for outcome in _answers(ask, view, interval, sleep):
                print(_plain_outcome(clock(), outcome), file=console.file, flush=True)


def _answers(
    ask: Callable[[], Status], view: View, interval: Interval, sleep: Callable[[float], None]
) -> Iterator[tuple[Status, Rows] | CommandError]:
    while True:
        try:
            status = ask()
        except CommandError as failure:
            view.fail(str(failure))
            yield failure
        else:
            yield status, view.take(status)
        sleep(interval.seconds)


def _plain_outcome(now: float, outcome: tuple[Status, Rows] | CommandError) -> str:
    if isinstance(outcome, CommandError):
        return f"{timestamp(now)} {printable(str(outcome))}"
    return plain_line(now, *outcome)
