"""A run's folder: what is there stays there, and only a run of the same plan goes on with it."""

from pathlib import Path

from experiments.results import finish
from experiments.study.folder import Folder
from experiments.study.readings import Reading
from tests.unit.study.test_readings import reading

PLAN = {"scenario": "made up", "options": {"repeat": 2}}


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = Folder.resume_or_begin(tmp_path, PLAN)
    first.add(reading("squid", 1, 10.0))
    again = Folder.resume_or_begin(tmp_path, PLAN)
    assert again == first
    assert again.has({"by": "squid", "family": "ipv4"}, 1)
    assert not again.has({"by": "squid", "family": "ipv4"}, 2)
    assert [each.values["mbps"] for each in again.readings()] == [10.0]


def test_a_path_among_the_circumstances_is_part_of_a_file_s_name(tmp_path: Path) -> None:
    """As of --sweep wired.trace=DIR/FILE."""
    folder = Folder.resume_or_begin(tmp_path, PLAN)
    point = {"wired.trace": "traces/lte.trace"}
    folder.add(Reading(point, 1, {"mbps": 10.0}, {}))
    assert folder.has(point, 1)
    assert [each.point for each in folder.readings()] == [point]


def test_a_torn_file_counts_as_missing(tmp_path: Path) -> None:
    """What a machine may leave that stops, and keeps a file's name before its bytes."""
    first = Folder.resume_or_begin(tmp_path, PLAN)
    first.add(reading("squid", 1, 10.0))
    (torn,) = (first.path / "readings").iterdir()
    torn.write_text("")
    again = Folder.resume_or_begin(tmp_path, PLAN)
    assert not again.has({"by": "squid", "family": "ipv4"}, 1)
    again.add(reading("squid", 1, 11.0))
    assert [each.values["mbps"] for each in again.readings()] == [11.0]
    (first.path / "plan.json").write_text("")
    assert Folder.resume_or_begin(tmp_path, PLAN) != first


def test_another_plan_or_a_whole_run_is_not_gone_on_with(tmp_path: Path) -> None:
    first = Folder.resume_or_begin(tmp_path, PLAN)
    assert Folder.resume_or_begin(tmp_path, PLAN | {"options": {"repeat": 3}}) != first
    finish(first.path)
    whole = first.path.with_suffix("")
    assert whole.suffix != ".partial"
    assert whole.exists()
    assert Folder.resume_or_begin(tmp_path, PLAN).path != whole


def test_tables_have_every_number(tmp_path: Path) -> None:
    folder = Folder.resume_or_begin(tmp_path, PLAN)
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
