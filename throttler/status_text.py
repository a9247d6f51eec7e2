"""What ``throttler status`` shows: the daemon's answer as text.

Each thing is a line of facts; what does not fit folds between facts, never inside one, so that 80 columns do.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from daemons.logs import printable
from daemons.text import ARROW, age, end, folded, plural, scaled
from settings.units import Size

Answer = dict[str, Any]


def show(answer: Answer, console: Console) -> None:
    """Print ``answer``, folded to the console's width."""
    for line in lines(answer, console.width):
        console.print(line, soft_wrap=True, highlight=False)


def lines(answer: Answer, width: int) -> Iterator[Text]:
    """The whole text, in lines of at most ``width`` columns as far as single facts let them."""
    yield from folded(_summary(answer), 0, width)
    for rule in answer["rules"]:
        yield from _block(f"rule {rule['name']}", _rule_rows(rule), width)
    for path in answer["paths"]:
        yield from _block(f"path {path['name']}", [_path(path)], width)
    if answer["classes"]:
        yield from _block("classes" + _cut(answer, "classes"), map(_class, answer["classes"]), width)
    for session in answer["sessions"]:
        yield from _block(_session(session), map(_subflow, session["subflows"]), width)
    yield from _block("counters", _counters(answer), width)


def _block(title: str, rows: Iterable[Sequence[str]], width: int) -> Iterator[Text]:
    yield Text()
    yield Text(printable(title), "bold")
    for row in rows:
        yield from folded(row, 2, width)


def _summary(answer: Answer) -> list[str]:
    return [
        f"policy {answer['policy']}",
        f"source {answer['source']}",
        f"up for {age(answer['uptime_s'])}",
        plural(answer["sessions_total"], "session") + _cut(answer, "sessions"),
        plural(answer["subflows_total"], "subflow"),
        f"{answer['holds_total']:,} held",
        plural(answer["classes_total"], "class", "classes"),
    ]


def _cut(answer: Answer, what: str) -> str:
    shown = len(answer[what])
    return f" (the first {shown:,} shown)" if shown < answer[f"{what}_total"] else ""


def _rule_rows(rule: Answer) -> Iterator[list[str]]:
    rate = f"{rule['rate']} for each {rule['scope']}" if rule["rate"] else f"by {rule['scope']}"
    yield [
        *rule_state(rule),
        rate,
        plural(rule["subflows"], "subflow"),
        plural(rule["classes"], "class", "classes"),
        f"matched {rule['matches']:,} times",
    ]
    if rule["quota"]:
        yield _quota(rule["quota"])


def rule_state(rule: Answer) -> list[str]:
    """Whether a rule works now, and what is unusual about it."""
    return [
        "in force" if rule["in_force"] else "not in force",
        *(["dry: only told, not held"] if rule["dry"] else []),
        *(["set live"] if rule["set_live"] else []),
    ]


def _quota(quota: Answer) -> list[str]:
    return [
        f"quota {Size(quota['bytes'])} a {quota['period']}",
        f"used {scaled(quota['used'], 'B')}",
        f"most by one {scaled(quota['worst_used'], 'B')}",
        f"spent by {quota['spent']:,}",
    ]


def _path(path: Answer) -> list[str]:
    return [f"interface {path['interface']}", plural(path["subflows"], "subflow"), f"{path['held']:,} held"]


def _class(entry: Answer) -> list[str]:
    ceiling = f" up to {entry['ceiling']}" if entry["ceiling"] != entry["rate"] else ""
    return [
        f"{entry['device']} {entry['class']}",
        entry["direction"],
        f"rule {entry['rule']}",
        f"for {entry['owner']}",
        f"{entry['rate']}{ceiling}",
        plural(entry["subflows"], "subflow"),
        f"sent {scaled(entry['sent_bytes'], 'B')} in {plural(entry['sent_packets'], 'packet')}",
        f"dropped {entry['dropped_packets']:,}",
        f"backlog {scaled(entry['backlog_bytes'], 'B')}",
    ]


def _session(session: Answer) -> str:
    active = plural(session["active_subflows"], "active subflow")
    return f"session {session['token']}, age {age(session['age_s'])}, {active}"


def _subflow(subflow: Answer) -> list[str]:
    return [
        # Two facts, since two addresses of IPv6 do not fit in 80 columns.
        f"{end(subflow['local'], subflow['local_port'])} {ARROW}",
        end(subflow["remote"], subflow["remote_port"]),
        f"path {subflow['path']}" if subflow["path"] else f"interface {subflow['interface']}",
        *_kind(subflow),
        f"age {age(subflow['age_s'])}",
        *_measured(subflow),
        *_held(subflow),
    ]


def _kind(subflow: Answer) -> list[str]:
    return [
        "initial" if subflow["initial"] else f"join, address id {subflow['address_id']}",
        *(["backup"] if subflow["backup"] else []),
    ]


def _measured(subflow: Answer) -> list[str]:
    """What its socket tells, where the session ends on this host."""
    return [
        *([f"sent {scaled(subflow['sent_bytes'], 'B')}"] if subflow["sent_bytes"] is not None else []),
        *([f"received {scaled(subflow['received_bytes'], 'B')}"] if subflow["received_bytes"] is not None else []),
        *([f"rtt {subflow['rtt_us'] / 1000:.1f} ms"] if subflow["rtt_us"] is not None else []),
    ]


def _held(subflow: Answer) -> list[str]:
    if not subflow["rule"]:
        return ["not held"]
    if subflow["dry"]:
        return [f"would be held by {subflow['rule']}"]
    classes = [f"{way} class {subflow[way]}" for way in ("download", "upload") if subflow[way]]
    return [f"held by {subflow['rule']}", *classes]


def _counters(answer: Answer) -> Iterator[list[str]]:
    for name, value in answer["counters"].items():
        yield [f"{value:>12,}  {name}"]
    for interface, counts in answer["capture"].items():
        for name, value in counts.items():
            yield [f"{value:>12,}  packets {name} on {interface}"]
