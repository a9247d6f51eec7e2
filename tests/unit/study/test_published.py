"""What is kept under version control of a run, and what docs/results has."""

import json
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from experiments.study import tidy
from experiments.study.__main__ import main
from experiments.study.catalogue import EVERYTHING
from experiments.study.folder import Record
from experiments.study.papers import table
from experiments.testbed.topology import Profile, Topology
from tests.refusals import command_error
from tributary.paths import ROOT
from tributary.settings.errors import Exit
from tributary.settings.files import check

RESULTS = ROOT / "docs/results"
KEPT = sorted(path.name for path in (RESULTS / "experiment").iterdir() if path.is_dir())


@cache
def kept(name: str) -> Record:
    """What is published of an experiment."""
    record = Record.published(RESULTS / "experiment" / name)
    assert record is not None
    return record


def test_little_is_tracked() -> None:
    listed = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "docs/results"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")[:-1]
    assert 0 < len(names) <= 100
    assert sum((ROOT / name).stat().st_size for name in names) <= 1_500_000


@pytest.mark.parametrize("name", KEPT)
def test_the_readings_give_the_verdicts_again(name: str) -> None:
    record = kept(name)
    plan = record.manifest["plan"]
    experiment = type(EVERYTHING[name]).model_validate(plan["options"], strict=False)
    topology = Topology.of(check(plan["links"], Profile, name))
    again = experiment.judge(topology, record.readings)
    assert [(each.claim, each.bound, each.holds) for each in again] == [
        (each.claim, each.bound, each.holds) for each in record.verdicts
    ]


def test_what_is_published_is_read_back_as_it_was(tmp_path: Path) -> None:
    record = kept("multipath")
    record.publish(tmp_path / "multipath")
    again = Record.published(tmp_path / "multipath")
    assert again is not None and again.plot is not None
    assert list(again.readings) == list(record.readings)
    assert (again.manifest, again.testbeds, again.verdicts, again.plot) == (
        record.manifest,
        record.testbeds,
        record.verdicts,
        record.plot,
    )


def test_it_can_be_published_and_reported_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", "legacy", "--results", str(RESULTS), "--to", str(tmp_path)]) == 0
    assert str(tmp_path / "experiment/legacy") in capsys.readouterr().out
    assert "TCP over wired fills it" in (tmp_path / "report.html").read_text()
    assert main(["report", "legacy", "--results", str(tmp_path)]) == 0
    assert "95" in (tmp_path / "papers.md").read_text()


def test_a_page_can_be_made_of_all_that_is_kept(tmp_path: Path) -> None:
    """Most plots are not kept: they are drawn again from the readings."""
    output = tmp_path / "report.html"
    assert main(["report", "--results", str(RESULTS), "--output", str(output)]) == 0
    page = output.read_text()
    assert all(f'id="{name}"' in page for name in KEPT)


def test_a_page_has_all_that_was_published_beside_it(tmp_path: Path) -> None:
    for name in ("legacy", "mtu"):
        assert main(["publish", name, "--results", str(RESULTS), "--to", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    assert 'id="legacy"' in page and 'id="mtu"' in page


def test_the_papers_table_is_made_from_what_is_published() -> None:
    """Each figure beside ours: the page that is kept is the one that the kept readings give."""
    assert (RESULTS / "papers.md").read_text() == table({name: kept(name) for name in KEPT})


def test_what_is_not_published_is_said_so() -> None:
    assert "not published yet | `legacy`" in table({})


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert Record.published(tmp_path) is None
    (tmp_path / "manifest.json").write_text(json.dumps({"testbeds": []}))
    (tmp_path / "readings.jsonl.xz").write_bytes(b"no archive")
    with command_error(Exit.NO_INPUT, "cannot be read"):
        Record.published(tmp_path)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mbps", ("throughput", "Mbit/s")),
        ("seconds", ("duration", "s")),
        ("steady_mbps", ("steady", "Mbit/s")),
        ("wired_bytes", ("wired", "byte")),
        ("first_byte_ms_25", ("first_byte of 25 kB", "ms")),
        ("data_p99_us", ("data_p99", "us")),
        ("converter_s_per_gb", ("converter", "s/GB")),
        ("stolen_percent", ("stolen", "%")),
        ("front_cpu_ms_per_gb", ("front_cpu", "ms/GB")),
        ("rss_mb", ("rss", "MB")),
        ("waiting_kb", ("waiting", "kB")),
        ("rewrite_ns", ("rewrite", "ns")),
        ("joins_per_second", ("joins", "1/s")),
        ("per_second", ("rate", "1/s")),
        ("tcp_retransmits", ("tcp_retransmits", "1")),
        ("subflows", ("subflows", "1")),
    ],
)
def test_a_value_has_its_unit_in_a_column_of_its_own(name: str, told: tuple[str, str]) -> None:
    assert tidy.quantity(name) == told


def test_no_kept_value_has_its_unit_in_its_name_alone() -> None:
    """Milliseconds a gigabyte, megabytes and the like have their unit in the column, not "1" as if they were counts."""
    units = re.compile(r"_(s|ms|us|ns|kb|mb|gb|[kmg]bps|bytes|percent|pct|second)$")
    names = {name for each in KEPT for reading in kept(each).readings for name in reading.values}
    assert [name for name in sorted(names) if units.search(name) and tidy.quantity(name)[1] == "1"] == []


def test_every_kept_value_is_a_row() -> None:
    for name in KEPT:
        header, *rows = tidy.table("values", name, kept(name).readings)
        assert len(rows) == sum(len(reading.values) for reading in kept(name).readings)
        assert {len(row) for row in rows} == {len(header)}
