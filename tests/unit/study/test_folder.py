"""A run's folder: what is there stays there, and only a run of the same plan goes on with it."""

from collections.abc import Mapping
from pathlib import Path

from experiments.results import finish
from experiments.study.folder import Folder
from experiments.study.readings import Reading
from tests.refusals import command_error
from tests.unit.study.test_readings import reading
from tributary.settings.errors import Exit

PLAN = {"scenario": "made up", "options": {"repeat": 2}}


def begun(parent: Path, plan: Mapping[str, object] = PLAN) -> Folder:
    """As a run that stopped leaves it."""
    with Folder.resumed_or_begun(parent, plan) as folder:
        return folder


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = begun(tmp_path)
    first.add(reading("squid", 1, 10.0))
    again = begun(tmp_path)
    assert again == first
    assert again.has({"by": "squid", "family": "ipv4"}, 1)
    assert not again.has({"by": "squid", "family": "ipv4"}, 2)
    assert [each.values["mbps"] for each in again.readings()] == [10.0]


def test_a_path_among_the_circumstances_is_part_of_a_file_s_name(tmp_path: Path) -> None:
    """As of --sweep wired.trace=DIR/FILE."""
    folder = begun(tmp_path)
    point = {"wired.trace": "traces/lte.trace"}
    folder.add(Reading(point, 1, {"mbps": 10.0}, {}))
    assert folder.has(point, 1)
    assert [each.point for each in folder.readings()] == [point]


def test_circumstances_longer_than_a_name_may_be_have_files_of_their_own(tmp_path: Path) -> None:
    """As of never-below-loads, whose points name all links, with a few axes of --sweep."""
    folder = begun(tmp_path)
    points = [{"links": "200mbit 600ms 0.1% 20; " * 10, "net.ipv4.tcp_rmem": f"4096 131072 {most}"} for most in (1, 2)]
    for point in points:
        folder.add(Reading(point, 1, {"mbps": 10.0}, {}))
        assert folder.has(point, 1) and not folder.has(point, 2)
    assert {each.point["net.ipv4.tcp_rmem"] for each in folder.readings()} == {"4096 131072 1", "4096 131072 2"}


def test_a_torn_file_counts_as_missing(tmp_path: Path) -> None:
    """What a machine may leave that stops, and keeps a file's name before its bytes."""
    first = begun(tmp_path)
    first.add(reading("squid", 1, 10.0))
    (torn,) = (first.path / "readings").iterdir()
    torn.write_text("")
    again = begun(tmp_path)
    assert not again.has({"by": "squid", "family": "ipv4"}, 1)
    again.add(reading("squid", 1, 11.0))
    assert [each.values["mbps"] for each in again.readings()] == [11.0]
    (first.path / "plan.json").write_text("")
    assert begun(tmp_path) != first


def test_testbeds_are_noted_whole_or_not_at_all(tmp_path: Path) -> None:
    """A torn line would make all of the run unreadable once it is whole."""
    folder, kept = begun(tmp_path), tmp_path / "kept"
    folder.note_testbed({"seed": 1})
    kept.hardlink_to(folder.path / "testbeds.jsonl")
    folder.note_testbed({"seed": 2})
    assert kept.read_text() == '{"seed": 1}\n'
    assert (folder.path / "testbeds.jsonl").read_text() == '{"seed": 1}\n{"seed": 2}\n'


def test_a_run_that_goes_on_is_nobody_else_s(tmp_path: Path) -> None:
    """A second command of the same plan writes nothing; one of another plan has a folder of its own."""
    begun(tmp_path, PLAN | {"options": {"repeat": 3}})
    with Folder.resumed_or_begun(tmp_path, PLAN) as first:
        (first.path / "manifest.json").write_text("of the first")
        before = sorted(tmp_path.rglob("*"))
        with command_error(Exit.IN_USE, "another command goes on with this run"):
            begun(tmp_path)
        assert sorted(tmp_path.rglob("*")) == before
        assert begun(tmp_path, PLAN | {"options": {"repeat": 3}}) != first
    assert begun(tmp_path) == first


def test_another_plan_or_a_whole_run_is_not_gone_on_with(tmp_path: Path) -> None:
    with Folder.resumed_or_begun(tmp_path, PLAN) as first:
        assert begun(tmp_path, PLAN | {"options": {"repeat": 3}}) != first
        finish(first.path)
    whole = first.path.with_suffix("")
    assert whole.suffix != ".partial"
    assert whole.exists()
    assert begun(tmp_path).path != whole
    assert not [*tmp_path.glob("*.lock")]


def test_tables_have_every_number(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    for repetition in (1, 2):
        folder.add(reading("squid", repetition, 10.0 * repetition))
    folder.write_tables("mine", folder.readings())
    assert (folder.path / "values.csv").read_text().splitlines() == [
        "experiment,by,family,repetition,quantity,unit,value",
        "mine,squid,ipv4,1,throughput,Mbit/s,10.0",
        "mine,squid,ipv4,2,throughput,Mbit/s,20.0",
    ]
    assert (folder.path / "series.csv").read_text().splitlines()[1:] == [
        "mine,squid,ipv4,1,wired,0.100,10.000",
        "mine,squid,ipv4,2,wired,0.100,20.000",
    ]
