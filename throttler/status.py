"""What ``throttler status`` adds to the daemon's answer, and how it shows it."""

import re
import subprocess
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

# Debian 12's iproute2 (6.1) has no JSON for HTB's classes: the text of "tc -s class show" it is.
_CLASS = re.compile(
    r"^class htb (?P<id>[0-9a-f]+:[0-9a-f]+) .*\n\s*Sent (?P<sent>\d+) bytes \d+ pkt \(dropped (?P<dropped>\d+),",
    re.MULTILINE,
)

Answer = dict[str, Any]


def class_statistics(text: str) -> dict[str, dict[str, int]]:
    """Class id to bytes sent and packets dropped, from what ``tc -s class show`` prints."""
    return {
        match["id"]: {"sent_bytes": int(match["sent"]), "dropped_packets": int(match["dropped"])}
        for match in _CLASS.finditer(text)
    }


def with_class_statistics(answer: Answer) -> Answer:
    """``answer`` with each hold's bytes sent and packets dropped; None where the class is gone by now."""
    holds = [
        (subflow["interface"], subflow["hold"])
        for session in answer["sessions"]
        for subflow in session["subflows"]
        if subflow["hold"]
    ]
    statistics = {interface: class_statistics(_class_show(interface)) for interface in {place for place, _ in holds}}
    for interface, hold in holds:
        nothing = {"sent_bytes": None, "dropped_packets": None}
        hold.update(statistics[interface].get(hold["class"], nothing))
    return answer


def _class_show(interface: str) -> str:
    command = ("tc", "-s", "class", "show", "dev", interface)
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def show(answer: Answer) -> None:
    """Print ``answer`` as tables."""
    console = Console()
    console.print(_summary(answer), highlight=False, markup=False)
    if answer["sessions"]:
        console.print(_subflows(answer))
    console.print(_counters(answer))


def _summary(answer: Answer) -> str:
    shown = len(answer["sessions"])
    first = f", the first {shown} shown" if shown < answer["sessions_total"] else ""
    return (
        f"policy {answer['policy']}, up for {answer['uptime_s']:.0f} s, "
        f"{answer['sessions_total']} sessions{first}, {answer['holds_total']} subflows held"
    )


def _subflows(answer: Answer) -> Table:
    columns = ("session", "subflow (gateway > client)", "path", "kind", "age", "held by", "rate", "class")
    table = Table(*columns, "sent", "dropped", box=None, pad_edge=False)
    for session in answer["sessions"]:
        for subflow in session["subflows"]:
            table.add_row(*(Text(cell) for cell in _cells(session["token"], subflow)))
    return table


def _cells(token: str, subflow: Answer) -> tuple[str, ...]:
    hold = subflow["hold"]
    kind = "initial" if subflow["initial"] else "join"
    return (
        token,
        f"{_host(subflow['local'])}:{subflow['local_port']} > {_host(subflow['remote'])}:{subflow['remote_port']}",
        subflow["path"] or subflow["interface"],
        f"{kind}, backup" if subflow["backup"] else kind,
        f"{subflow['age_s']:.0f} s",
        *((hold["rule"], hold["rate"], hold["class"]) if hold else ("-", "-", "-")),
        *((_number(hold["sent_bytes"]), _number(hold["dropped_packets"])) if hold else ("-", "-")),
    )


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _counters(answer: Answer) -> Table:
    table = Table("counter", "value", box=None, pad_edge=False)
    for name, value in answer["counters"].items():
        table.add_row(name, f"{value:,}")
    for interface, counts in answer["capture"].items():
        for name, value in counts.items():
            table.add_row(Text(f"packets {name} on {interface}"), f"{value:,}")
    return table
