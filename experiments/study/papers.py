"""What four papers found beside what was found here: papers.md.j2, filled from the readings that are published."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from experiments.study.catalogue import SCENARIOS
from experiments.study.folder import Record
from experiments.study.readings import Decision, Readings, Verdict
from tributary.settings.templates import rendered

_NOT_MEASURED = "not published yet"
_OUTCOMES = {
    Decision.HOLDS: "same",
    Decision.UNDECIDED: "undecided",
    Decision.DIFFERS: "differs",
    Decision.FAILS: "differs",
}
_WORST_FIRST = (Decision.FAILS, Decision.DIFFERS, Decision.UNDECIDED, Decision.HOLDS)
_V4 = {"family": "ipv4"}
_PLACE = re.compile(r"{([^}]*)}")


def table(records: Mapping[str, Record]) -> str:
    """The page, from the ``records`` of what is published, by the experiments' names."""
    return rendered(Path(__file__).with_name("papers.md.j2"), row=partial(_row, records))


def _row(
    records: Mapping[str, Record],
    figure: str,
    what: str,
    theirs: str,
    ours: str,
    by: str = "",
    words: Sequence[str] = (),
    why: str = "",
    outcome: str = "",
) -> str:
    """A row: what the paper's ``figure`` shows and the paper found; and ``ours`` by the experiment ``by``.

    ``{VALUE,KEY=VALUE,...}`` in ``ours`` is the estimate of a value at some points, or what _COMPUTED makes of the
    readings. Verdicts whose claims have all ``words`` say whether that is the same; where they do not, ``why``
    explains it, unless a verdict does. Without an experiment, ``ours`` and ``outcome`` are what a page has.
    """
    assert not by or by in SCENARIOS, by
    record = records.get(by)
    if by and record is None:
        return _cells(figure, what, theirs, "", _NOT_MEASURED, f"`{by}`")
    verdicts = record.verdicts if record else []
    found, because = _outcome([each for each in verdicts if all(word in each.claim for word in words)])
    reasons = [part for part in ("" if outcome else because, f"`{by}`" if by else "") if part]
    if why and (outcome or not because):
        reasons.insert(0, why)
    filled = _filled(ours, record.readings) if record else ours
    return _cells(figure, what, theirs, filled, outcome or found, ". ".join(reasons))


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _filled(text: str, readings: Readings) -> str:
    def number(place: re.Match[str]) -> str:
        name, *at = place[1].split(",")
        if name in _COMPUTED:
            return _COMPUTED[name](readings, *at)
        value, _, divisor = name.partition("/")
        point = dict(each.split("=") for each in at)
        return str(readings.at(**point).estimate(value).scaled(1 / float(divisor or 1)))

    try:
        return _PLACE.sub(number, text)
    except KeyError:
        return "not with these options"


def _outcome(verdicts: Sequence[Verdict]) -> tuple[str, str]:
    """Same or not, and the reason that a verdict has."""
    if not verdicts:
        return _NOT_MEASURED, ""
    worst = min((verdict.decision for verdict in verdicts), key=_WORST_FIRST.index)
    because = dict.fromkeys(verdict.because for verdict in verdicts if verdict.differs)
    several = len({verdict.decision for verdict in verdicts}) > 1 and worst is not Decision.UNDECIDED
    return f"{_OUTCOMES[worst]}{' in part' * several}", "; ".join(because)


def _mean(readings: Readings, name: str, **point: str) -> float:
    return readings.at(**point).estimate(name).mean


def _lost(readings: Readings) -> str:
    """Of figure 5: percent of the throughput by small packets, by who had which buffer."""

    def percent(by: str, buffer: str) -> float:
        full, small = (_mean(readings, "steady_mbps", by=by, buffer=buffer, mtu=mtu, **_V4) for mtu in ("1500", "1000"))
        return 100 * (1 - small / full)

    return ", ".join(
        f"{percent(by, buffer):.1f} % by {by} with {buffer}"
        for by in ("native", "legacy")
        for buffer in ("720kB", "4MB")
        if readings.at(by=by, buffer=buffer, mtu="1000", **_V4).values("steady_mbps")
    )


def _knees(readings: Readings) -> str:
    from experiments.scenarios.buffer_mtu import knees

    by_mtu = sorted(knees(readings).items(), reverse=True)
    return ", ".join(f"{mtu} bytes: {knee.estimate} MB" for mtu, knee in by_mtu)


def _sooner(readings: Readings, proxies: str) -> str:
    direct, early = (_mean(readings, "whole_ms_25", by=by, proxies=proxies) for by in ("direct", "early SYN"))
    return f"{100 * (1 - early / direct):.1f}"


def _longer(readings: Readings, by: str, than: str) -> str:
    """Percent that transfers take longer ``by`` one way ``than`` by another, from the least to the most."""
    sizes = {name for reading in readings for name in reading.values if name.startswith("whole_ms_")}
    found = [100 * (_mean(readings, name, by=by) / _mean(readings, name, by=than) - 1) for name in sizes]
    return f"{min(found):.0f} to {max(found):.0f}"


def _gain(readings: Readings, size: str) -> str:
    ours = _mean(readings, "mbps", by="handoff", size=size)
    proxies = [readings.at(by=by, size=size).values("mbps") for by in ("nginx", "haproxy")]
    return f"{ours / max(sum(each) / len(each) for each in proxies if each):.2f}"


_COMPUTED: Mapping[str, Callable[..., str]] = {
    "lost": _lost,
    "knees": _knees,
    "sooner": _sooner,
    "longer": _longer,
    "gain": _gain,
}
