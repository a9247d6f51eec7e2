"""The page of what experiments found, from runs' folders that are made up."""

import json
import re
from base64 import b64decode
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from experiments.results import write_json
from experiments.scenarios.grid import Grid
from experiments.scenarios.legacy import Legacy
from experiments.scenarios.multipath import Multipath
from experiments.study.__main__ import main
from experiments.study.changes import orders
from experiments.study.experiment import Experiment
from experiments.study.folder import Folder
from experiments.study.plot import plot
from experiments.study.readings import Decision, Verdict
from tests.refusals import command_error, usage_error
from tests.unit.scenarios import test_downloads, test_grid
from tests.unit.scenarios.made_up import Rule, but, readings, topology
from tributary.settings.errors import Exit

MACHINE = {"kernel": "6.18.0", "processor": "Abacus 3000", "processors": 2, "memory_mb": 8000, "system": None}
LINK = {"link": "wired", "what": "down_mbps", "described": 100.0}
PLOT = '<svg xmlns="http://www.w3.org/2000/svg" width="9pt" viewBox="0 0 9 9"><script/><path id="axes_1"/></svg>'
TESTBEDS = [{"emulated_by": "netem", "measured": [LINK | {"measured": measured}]} for measured in (98.5, 99.25)]


def write_run(
    results: Path, scenario: Experiment, rule: Rule, time: str = "20260101T000000.000000Z", **about: object
) -> Path:
    """A whole run in ``results``; ``about`` is put into its manifest."""
    folder = Folder(results / "experiment" / scenario.name / time)
    (folder.path / "readings").mkdir(parents=True)
    plan = orders([scenario], [])[0].plan()
    write_json(folder.path / "plan.json", plan)
    manifest = {
        "command": ["scripts/experiment", "run", scenario.name],
        "started": "2026-01-01T00:00:00+00:00",
        "machine": MACHINE,
        "versions": {"squid": "Squid 6.13", "commit": "c0ffee"},
        "python": "3.11.2",
        "plan": plan,
    }
    write_json(folder.path / "manifest.json", manifest | about)
    for testbed in TESTBEDS:
        folder.note_testbed(testbed)
    made_up = readings(type(scenario), rule)
    for reading in made_up:
        folder.add(replace(reading, values={**reading.values, "stolen_percent": 1.5}))
    verdicts = scenario.judge(topology(type(scenario)), made_up)
    write_json(folder.path / "verdicts.json", [verdict.as_json() for verdict in verdicts])
    (folder.path / "plot.svg").write_text(PLOT)
    return folder.path


@dataclass
class Seen(HTMLParser):
    """What a browser would find: tags, attributes by name, and text."""

    tags: set[str] = field(default_factory=set)
    attributes: dict[str, list[str]] = field(default_factory=dict)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")

    def handle_data(self, data: str) -> None:
        self.text = " ".join(f"{self.text} {data}".split())


def report(results: Path, *arguments: str) -> Seen:
    assert main(["report", "--results", str(results), *arguments]) == 0
    return seen(results / "experiment/report.html")


def seen(page: Path) -> Seen:
    found = Seen()
    found.feed(page.read_text())
    found.close()
    return found


def plots(page: Seen) -> list[str]:
    return [b64decode(source.partition(",")[2]).decode() for source in page.attributes["src"]]


def write_both(results: Path) -> None:
    """Runs of two scenarios, without their plots, so that matplotlib draws them for the page."""
    for scenario, rule in ((Legacy(), test_downloads.legacy), (Multipath(), test_downloads.multipath)):
        (write_run(results, scenario, rule) / "plot.svg").unlink()


def test_a_run_that_was_swept_has_figures_and_plots_of_each_value(tmp_path: Path) -> None:
    """Two values have one repetition 1 each, and were taken for one."""
    (order,) = orders([Multipath()], [], sweeps=["mtu=1500,1280"])
    path = write_run(tmp_path, Multipath(), test_downloads.multipath, plan=order.plan())
    (path / "plot.svg").unlink()
    for file in (path / "readings").iterdir():
        file.unlink()
    for each in readings(Multipath, test_downloads.multipath):
        for mtu, part in (("1500", 1.0), ("1280", 0.5)):
            values = {name: part * value for name, value in each.values.items()}
            Folder(path).add(replace(each, point={**each.point, "mtu": mtu}, values=values))
    page = report(tmp_path)
    for text in ("native_mbps (mtu=1500) 110.000", "native_mbps (mtu=1280) 55.000"):
        assert text in page.text
    whole = orders([Multipath()], [])[0]
    (drawn,) = plots(page)
    alone = plot("multipath", lambda figure: whole.drawn(figure, readings(Multipath, test_downloads.multipath)))
    assert drawn.count('id="axes_') == 2 * alone.count('id="axes_') > 0


def test_a_page_has_all_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, Legacy(), test_downloads.legacy)
    page = report(tmp_path)
    assert capsys.readouterr().out == f"{tmp_path}/experiment/report.html\n"
    for text in (
        Legacy().claim,
        Legacy().expected,
        "client ==link== gateway ---- server",
        "✓ holds TCP over wired fills it (ipv4) at least 90.0 Mbit/s 95.0 Mbit/s",
        "size=50MB",
        "rate=100mbit delay=5ms queue=100",
        "wired rate to the client, Mbit/s 100.00 98.50 to 99.25 2",
        "1.5 % at worst",
        "scripts/experiment run legacy",
        "2026-01-01T00:00:00+00:00",
        "Abacus 3000",
        "Squid 6.13",
        "c0ffee",
    ):
        assert text in page.text
    assert "does not hold" not in page.text
    assert "None" not in page.text


def test_a_verdict_that_fails_is_said_to_fail(tmp_path: Path) -> None:
    slow = but(test_downloads.legacy, {"link": "wired", "family": "ipv4"}, steady_mbps=89)
    write_run(tmp_path, Legacy(), slow)
    page = report(tmp_path)
    assert "✗ does not hold TCP over wired fills it (ipv4) at least 90.0 Mbit/s 89.0 Mbit/s" in page.text
    assert page.text.count("does not hold") == 1
    assert "✗ 1 of 4 do not hold" in page.text
    assert "3 of 4 verdicts hold" in page.text


def test_what_is_undecided_or_differs_is_no_failure(tmp_path: Path) -> None:
    """Readings with the bound in their interval are told as undecided, and a known difference with its reason."""
    folder = write_run(tmp_path, Multipath(), test_downloads.multipath)
    made_up = [Verdict("it is fast", "90 ± 5", "at least 90", Decision.UNDECIDED)]
    made_up += [Verdict("as in the paper", "19", "at most 5", Decision.DIFFERS, "another kernel")]
    write_json(folder / "verdicts.json", [each.as_json() for each in made_up])
    page = report(tmp_path)
    assert "? undecided it is fast" in page.text
    assert "≠ differs as in the paper Because: another kernel" in page.text
    assert "hold: 0 of 2; differs: 1; undecided: 1" in page.text
    assert "does not hold" not in page.text


def test_a_verdict_that_fails_is_explained(tmp_path: Path) -> None:
    slow = but(test_grid.good, test_grid.HARD | {"settings": "appliance", "by": "squid"}, steady_mbps=45.5)
    write_run(tmp_path, Grid(), slow)
    assert "squid) Because: a send buffer that begins with 8 MB" in report(tmp_path).text


def test_what_has_not_run_is_named(tmp_path: Path) -> None:
    write_run(tmp_path, Legacy(), test_downloads.legacy)
    assert f"multipath figure 3 {Multipath().claim} not run" in report(tmp_path).text
    assert "not run" not in report(tmp_path, "legacy").text


def test_text_from_outside_is_escaped(tmp_path: Path) -> None:
    command = ["scripts/experiment", "run", "legacy", "--testbed", "<script>alert('&')</script>"]
    write_run(tmp_path, Legacy(), test_downloads.legacy, command=command)
    page = report(tmp_path)
    assert "script" not in page.tags
    # As the shell wants it.
    assert "--testbed '<script>alert('\"'\"'&'\"'\"')</script>'" in page.text


def test_a_page_needs_nothing_beside_itself(tmp_path: Path) -> None:
    write_both(tmp_path)
    page = report(tmp_path)
    assert page.tags.isdisjoint({"script", "link", "iframe", "object", "image"})
    assert [source.partition(",")[0] for source in page.attributes["src"]] == ["data:image/svg+xml;base64"] * 2
    assert all(target.startswith("#") for target in page.attributes["href"])
    text = (tmp_path / "experiment/report.html").read_text()
    assert not re.search(r"https?://|@import|url\((?!#)", text)


def test_ids_are_unique_and_all_references_have_one(tmp_path: Path) -> None:
    write_both(tmp_path)
    page = report(tmp_path)
    ids = page.attributes["id"]
    assert len(set(ids)) == len(ids)
    assert {target[1:] for target in page.attributes["href"]} <= set(ids)


def test_the_newest_whole_run_counts(tmp_path: Path) -> None:
    for time, command in (
        ("20260102T000000.000000Z", "older"),
        ("20260103T000000.000000Z", "newer"),
        ("20260104T000000.000000Z.partial", "unfinished"),
    ):
        write_run(tmp_path, Legacy(), test_downloads.legacy, time, command=[command])
    text = report(tmp_path).text
    assert "newer" in text
    assert "older" not in text
    assert "unfinished" not in text


def test_a_plot_becomes_part_of_the_page(tmp_path: Path) -> None:
    write_run(tmp_path, Legacy(), test_downloads.legacy)
    page = report(tmp_path)
    assert page.tags.isdisjoint({"script", "svg"})
    assert plots(page) == [PLOT]


def test_a_plot_that_is_missing_is_drawn_again(tmp_path: Path) -> None:
    run = write_run(tmp_path, Legacy(), test_downloads.legacy)
    (run / "plot.svg").unlink()
    page = report(tmp_path)
    assert page.attributes["alt"] == ["Plot of legacy; the numbers are in a table below."]
    assert [text.count('id="axes_2"') for text in plots(page)] == [1]


def test_a_plot_of_links_that_are_described_otherwise_now_is_not_drawn_again(tmp_path: Path) -> None:
    run = write_run(tmp_path, Legacy(), test_downloads.legacy)
    (run / "plot.svg").unlink()
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["plan"]["links"]["links"]["wired"]["colour"] = "blue"
    write_json(run / "manifest.json", manifest)
    with command_error(Exit.USAGE, "legacy: the run's links: links.wired.colour"):
        report(tmp_path)


def test_settings_are_told_as_they_are_set(tmp_path: Path) -> None:
    run = write_run(tmp_path, Legacy(), test_downloads.legacy)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["plan"] = {
        "options": {"repeat": 3, "mtu": [1500, 1000]},
        "links": {"links": {"dsl": {"rate": "10mbit", "down": {}, "up": {"rate": "1mbit", "loss": "1%"}}}},
    }
    write_json(run / "manifest.json", manifest)
    text = report(tmp_path).text
    assert "Options repeat=3 mtu=1500,1000 " in text
    assert "Link dsl rate=10mbit up.rate=1mbit up.loss=1% " in text


def test_each_machine_is_described_once(tmp_path: Path) -> None:
    write_both(tmp_path)
    assert "Machine of" not in report(tmp_path).text
    write_run(tmp_path, Multipath(), test_downloads.multipath, "20260109T000000.000000Z", machine={"kernel": "7.0"})
    text = report(tmp_path).text
    assert "Machine of legacy" in text
    assert "Machine of multipath kernel 7.0" in text


def test_a_file_of_ones_own_is_written(tmp_path: Path) -> None:
    write_run(tmp_path, Legacy(), test_downloads.legacy)
    assert main(["report", "legacy", "--results", str(tmp_path), "--output", str(tmp_path / "page.html")]) == 0
    assert "TCP over wired fills it" in seen(tmp_path / "page.html").text
    assert not (tmp_path / "experiment/report.html").exists()


@pytest.mark.parametrize("arguments", [[], ["multipath"]])
def test_no_whole_run_is_no_input(tmp_path: Path, arguments: list[str]) -> None:
    write_run(tmp_path, Legacy(), test_downloads.legacy, "20260101T000000.000000Z.partial")
    with command_error(Exit.NO_INPUT, f"no whole run of {' '.join(arguments) or 'any experiment'}"):
        report(tmp_path, *arguments)


@pytest.mark.parametrize("missing", ["manifest.json", "verdicts.json", "testbeds.jsonl"])
def test_a_run_without_one_of_its_files_is_no_input(tmp_path: Path, missing: str) -> None:
    run = write_run(tmp_path, Legacy(), test_downloads.legacy)
    (run / missing).unlink()
    with command_error(Exit.NO_INPUT, missing):
        report(tmp_path)


def test_a_page_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    write_run(tmp_path, Legacy(), test_downloads.legacy)
    with command_error(Exit.SYSTEM, "cannot be written"):
        report(tmp_path, "--output", str(tmp_path / "nowhere/page.html"))


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing" in usage_error(main, ["report", "legacy", "nothing"], capsys)
