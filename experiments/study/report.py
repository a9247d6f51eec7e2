"""One page of what experiments found: from the records of runs to HTML that needs nothing beside itself."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from textwrap import dedent
from typing import Any

from experiments.study.experiment import Experiment
from experiments.study.folder import Record
from experiments.study.order import Order
from experiments.study.plot import inline, plot
from experiments.study.readings import STOLEN, Estimate, Reading, Readings, every, name_of
from experiments.testbed.topology import Profile
from tributary.settings.files import check
from tributary.settings.templates import rendered

_PROPERTIES = {
    "rtt_ms": "round-trip time, ms",
    "down_mbps": "rate to the client, Mbit/s",
    "up_mbps": "rate from the client, Mbit/s",
}


@dataclass(frozen=True)
class Table:
    """Text by row; each row is as long as the header. The first ``words`` columns hold no numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int


def numbers(readings: Readings) -> Table:
    """A row for each point: its circumstances, how many readings there are, and the estimate of each value."""
    by_point: dict[str, list[Reading]] = {}
    for reading in readings:
        by_point.setdefault(name_of(reading.point), []).append(reading)
    groups = [by_point[name] for name in sorted(by_point, key=_natural)]
    circumstances = list(dict.fromkeys(key for group in groups for key in group[0].point))
    values = list(dict.fromkeys(name for reading in readings for name in reading.values))
    rows = [
        [
            *(group[0].point.get(key, "") for key in circumstances),
            str(len(group)),
            *(_estimate(Readings(group).values(name)) for name in values),
        ]
        for group in groups
    ]
    return Table([*circumstances, "readings", *values], rows, words=len(circumstances))


def links(testbeds: Iterable[Mapping[str, Any]]) -> Table:
    """A row for each property of a link: as described, and as measured on every testbed that described it so."""
    found: dict[tuple[str, str, float], list[float]] = {}
    for testbed in testbeds:
        for each in testbed["measured"]:
            found.setdefault((each["link"], each["what"], each["described"]), []).append(each["measured"])
    rows = [
        [link, _PROPERTIES.get(what, what), f"{described:.2f}", _range(measured), str(len(measured))]
        for (link, what, described), measured in found.items()
    ]
    return Table(["link", "property", "as described", "as measured", "testbeds"], rows, words=2)


def _estimate(values: Sequence[float]) -> str:
    """The estimate, in whole numbers from a thousand on; nothing where nothing was measured."""
    if not values:
        return ""
    estimate = Estimate.of(values)
    if estimate.mean < 1000:
        return str(estimate)
    return f"{estimate.mean:,.0f} ± {estimate.margin:,.0f}" if estimate.margin else f"{estimate.mean:,.0f}"


def _range(measured: Sequence[float]) -> str:
    least, most = f"{min(measured):.2f}", f"{max(measured):.2f}"
    return least if least == most else f"{least} to {most}"


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts rate=5 before rate=20."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


_LABELS = {"processors": "processors, number", "memory_mb": "memory, MB"}


def report(scenarios: Sequence[Experiment], records: Mapping[str, Record], made: datetime) -> str:
    """What to say of ``scenarios``, from the records by name of those that have run: one HTML document, all text of
    which is escaped.

    Raises CommandError with exit 64 if a plot is missing and the links that it shows are not described as they are now.
    """
    sections = {each.name: _section(each, records[each.name]) for each in scenarios if each.name in records}
    return rendered(
        Path(__file__).with_name("report.html.j2"),
        scenarios=scenarios,
        sections=sections,
        decisions=sum((section["decisions"] for section in sections.values()), Counter()),
        machines=_machines({name: records[name].manifest for name in sections}),
        made=made,
    )


def _section(scenario: Experiment, record: Record) -> dict[str, Any]:
    """What the page says of one run of ``scenario``; ``decisions`` count its verdicts."""
    label = f"Plot of {scenario.name}; the numbers are in a table below."
    return {
        "scenario": scenario,
        "about": _paragraphs(scenario.about),
        "verdicts": record.verdicts,
        "decisions": Counter(verdict.decision for verdict in record.verdicts),
        "plot": inline(record.plot or _drawn_again(scenario, record), label),
        "facts": _facts(record),
        "command": shlex.join(record.manifest["command"]),
        "numbers": numbers(record.readings),
        "links": links(record.testbeds),
        "metrics": _metrics(scenario, record),
    }


def _metrics(scenario: Experiment, record: Record) -> dict[str, str]:
    """At each combination of a run's axes by itself."""
    found: dict[str, str] = {}
    for values in every(**record.manifest["plan"].get("axes", {})):
        at = f" ({name_of(values)})" if values else ""
        quoted = scenario.quoted(record.readings.at(**values))
        found |= {f"{each.name}{at}": f"{each.median:.3f}" for each in quoted}
    return found


def _drawn_again(scenario: Experiment, record: Record) -> str:
    plan = record.manifest["plan"]
    profile = check(plan["links"], Profile, f"{scenario.name}: the run's links")
    order = Order(scenario, profile, plan.get("axes", {}))
    return plot(scenario.name, lambda figure: order.drawn(figure, record.readings))


def _paragraphs(about: str) -> list[tuple[str, bool]]:
    """Those of a docstring; and whether it is a drawing, which is indented, and whose line breaks and spaces matter."""
    paragraphs = re.split(r"\n\s*\n", about.rstrip()) if about else []
    return [(dedent(text), True) if text.startswith(" ") else (" ".join(text.split()), False) for text in paragraphs]


def _facts(record: Record) -> dict[str, str]:
    manifest, plan = record.manifest, record.manifest["plan"]
    return {
        "Date": manifest["started"],
        "Options": _settings(plan["options"]),
        **{f"Link {name}": _settings(link) for name, link in plan["links"]["links"].items()},
        "Links emulated by": ", ".join(sorted({testbed["emulated_by"] for testbed in record.testbeds})),
        "Kernel": manifest["machine"]["kernel"],
        "Commit": _commit(manifest["versions"]["commit"], plan.get("uncommitted")),
        "Programs": ", ".join(sorted({_programs(testbed) for testbed in record.testbeds})),
        "Stolen time": _stolen(record.readings),
    }


def _commit(commit: str | None, uncommitted: str | None) -> str:
    changed = f", and changes that are not committed ({uncommitted})" if uncommitted else ""
    return f"{commit or 'unknown'}{changed}"


def _programs(testbed: Mapping[str, Any]) -> str:
    """How the Rust programs were built; what was published before that was noted ran quick builds."""
    return str(testbed.get("programs", {}).get("profile", "unknown"))


def _settings(document: Mapping[str, Any], prefix: str = "") -> str:
    """Settings on one line, much as --set takes them: ``rate=100mbit up.loss=1% mtu=1500,1000``."""
    texts = []
    for key, value in document.items():
        if isinstance(value, Mapping):
            texts.append(_settings(value, f"{prefix}{key}."))
        else:
            texts.append(f"{prefix}{key}={','.join(map(str, value)) if isinstance(value, list) else value}")
    return " ".join(text for text in texts if text)


def _stolen(readings: Readings) -> str:
    """The part of the processors' time that a hypervisor gave to others while the readings were taken."""
    shares = readings.values(STOLEN)
    if not shares:
        return "unknown"
    mean, most = sum(shares) / len(shares), max(shares)
    return f"a hypervisor took {mean:.1f} % of the processors' time from a reading on average, {most:.1f} % at worst"


def _machines(manifests: Mapping[str, Mapping[str, Any]]) -> list[tuple[list[str], dict[str, str]]]:
    """Each machine once: the names of the scenarios that ran on it, and its facts."""
    names: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, manifest in manifests.items():
        names.setdefault(tuple(_machine(manifest).items()), []).append(name)
    return [(ran, dict(facts)) for facts, ran in names.items()]


def _machine(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The machine, and the versions that it had of everything but this project."""
    known = {**manifest["machine"], "python": manifest["python"], **manifest["versions"], "commit": None}
    return {_LABELS.get(key, key): str(fact) for key, fact in known.items() if fact is not None}
