"""What a run is asked for: in which order, and what makes it the same run as another one."""

import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from time import process_time

import pytest

from experiments.results import uncommitted
from experiments.study.catalogue import EVERYTHING, SCENARIOS, from_file
from experiments.study.changes import orders
from experiments.study.order import Order
from experiments.study.readings import name_of
from experiments.testbed.profile import PROFILES
from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit

MINE = """\
import beside
from experiments.scenarios.legacy import Legacy

class Mine(Legacy):
    claim = beside.CLAIM
"""


def order(name: str, repeat: int = 3) -> Order:
    (made,) = orders([EVERYTHING[name]], (), repeat=repeat)
    return made


def test_points_are_measured_in_another_order_in_each_repetition_and_the_same_in_each_run() -> None:
    """What drifts while a run goes on must not look like a property of the points that come late."""
    taken = [(repetition, name_of(point)) for repetition, point in order("multipath").readings]
    by_repetition = {number: [name for each, name in taken if each == number] for number in (1, 2, 3)}
    assert all(Counter(names) == Counter(by_repetition[1]) for names in by_repetition.values())
    assert len({tuple(names) for names in by_repetition.values()}) > 1
    assert taken == [(repetition, name_of(point)) for repetition, point in order("multipath").readings]


def test_points_with_one_testbed_stay_together() -> None:
    made = order("mtu", repeat=1)
    places = [made.blueprint(point) for _, point in made.readings]
    changes = sum(one != other for one, other in pairwise(places))
    assert changes == len({str(place.as_json()) for place in places}) - 1


def test_an_order_of_many_points_is_found_soon() -> None:
    """Each point's testbed was compared with all others': of these 2,580 points for a minute, before the first one."""
    sweeps = ["congestion=cubic,reno", "receive-buffer=0.5MB,2MB,4MB"]
    (made,) = orders([SCENARIOS["never-below"]], (), repeat=1, sweeps=sweeps)
    begun = process_time()
    assert len(list(made.readings)) == len(made.points)
    assert process_time() - begun < 8


def test_benchmarks_that_stand_for_all_repetitions_turn_round() -> None:
    made = order("bench-converter", repeat=2)
    first, second = ([point for number, point in made.readings if number == each] for each in (1, 2))
    assert second == first[::-1]


def plan_of(path: Path) -> dict[str, object]:
    (made,) = orders([from_file(path)], ())
    return made.plan()


@pytest.mark.parametrize("changed", ["mine.py", "beside.py"])
def test_a_file_that_was_edited_is_another_plan(changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was stopped, its experiment's file edited, run again: readings of before are of another experiment."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    (tmp_path / "beside.py").write_text('CLAIM = "what somebody claims"\n')
    (mine := tmp_path / "mine.py").write_text(MINE)
    before = plan_of(mine)
    assert plan_of(mine) == before
    assert {Path(name).name for name in before["files"]} == {"mine.py", "beside.py"}  # type: ignore[attr-defined]
    path = mine.with_name(changed)
    path.write_text(path.read_text() + "# another measurement\n")
    assert plan_of(mine) != before


def test_another_trace_of_the_same_path_is_another_plan(tmp_path: Path) -> None:
    trace, plans = tmp_path / "own.trace", []
    for text in ("1\n", "2\n", "1\n"):
        trace.write_text(text)
        (made,) = orders([EVERYTHING["legacy"]], (), sweeps=[f"wired.trace={trace}"])
        plans.append(made.plan())
    assert plans[0] == plans[2] != plans[1]


def test_what_is_not_committed_is_another_plan(tmp_path: Path) -> None:
    """The commit alone does not say what ran: a changed file, and one that git does not know, are told by a digest."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    (tmp_path / "known.py").write_text("1\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
    found = [uncommitted(tmp_path)]
    for name, text in (("known.py", "2\n"), ("known.py", "3\n"), ("new.py", "1\n")):
        (tmp_path / name).write_text(text)
        found.append(uncommitted(tmp_path))
    assert found[0] is None
    assert len(set(found)) == 4


def test_links_that_are_too_few_are_refused_by_the_experiments_name(tmp_path: Path) -> None:
    """A profile with one link: refused before anything is touched, and not by an IndexError in the middle."""
    profile = tmp_path / "one.toml"
    profile.write_text('[links.dsl]\nrate = "10mbit"\n')
    refused = []
    for name, scenario in SCENARIOS.items():
        if not scenario.any_links:
            continue
        try:
            (made,) = orders([scenario], (), over=profile)
            assert made.points
        except CommandError as failure:
            assert failure.code == Exit.USAGE
            assert str(failure) == f"{name}: links: dsl: accepted: a profile of 2 links or more"
            refused.append(name)
    assert {"multipath", "throttle-first", "throttle-again", "throttle-long", "failover", "latency"} <= set(refused)
    assert "legacy" not in refused
    for name in refused:
        (made,) = orders([SCENARIOS[name]], (), over=PROFILES / "two-fibre.toml")
        assert made.points


def test_an_experiment_runs_the_programs_that_a_package_has() -> None:
    """A figure of a quick build would be of what no user has: the choice is the process's, made before it asks."""
    asked = (
        "from experiments.testbed import native; native.cargo.build = lambda *_, released: print(released) or [];"
        " {}; native._made(); print(native.description()['profile'])"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", asked.format(first)], check=True, capture_output=True, text=True, cwd=ROOT
        ).stdout.split()
        for first in ("pass", "native.measure_released()")
    ]
    assert told == [["False", "quick"], ["True", "released"]]
