"""Experiments that people have in files of their own."""

from pathlib import Path

import pytest

from experiments.study.__main__ import main
from experiments.study.catalogue import EVERYTHING, from_file
from tests.refusals import command_error, usage_error
from tributary.settings.errors import Exit

LEGACY = "from experiments.scenarios.legacy import Legacy\n"
DOWNLOAD = "from experiments.scenarios.downloads import DownloadExperiment\nclass Mine(DownloadExperiment):\n"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that `experiment new` wrote."""
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mine"]) == 0
    return tmp_path / "mine.py"


def test_a_new_one_is_short_and_runs_as_it_is(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(mine.read_text().splitlines()) < 30
    assert main(["run", "./mine.py", "--dry-run", "--set", "size=20MB", "--set", "wired.delay=40ms"]) == 0
    assert "mine: 2 points, 3 times each" in capsys.readouterr().out


def test_a_new_one_does_not_take_anothers_place(mine: Path) -> None:
    with command_error(Exit.USAGE, "mine.py is there already"):
        main(["new", "mine"])
    assert mine.exists()


@pytest.mark.parametrize("name", ["legacy", "Mine", "1st", "a/b", ""])
def test_a_name_that_no_new_one_can_have(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "accepted: a-z" in usage_error(main, ["new", name], capsys)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has no experiment: accepted: a file that says class NAME(Experiment)"),
        ("EXPERIMENT = 1", "has no experiment"),
        ("import sys\nsys.exit(3)", "line 2: SystemExit: 3"),
        ("\n1 / 0", "mine.py, line 2: ZeroDivisionError: division by zero"),
        ("open('/nowhere')", "line 1: FileNotFoundError"),
        ("import nothing_of_this_name", "line 1: ModuleNotFoundError: No module named"),
        ("def", "line 1: SyntaxError"),
        ("from experiments.scenarios.legacy import Legacy", "has no experiment"),
        (f"{LEGACY}class Mine(Legacy):\n    name = 'legacy'", "name = 'legacy': accepted: a name that no"),
        ("from experiments.study.experiment import Experiment\nclass Mine(Experiment):\n    pass", "Can't instantiate"),
        (f"{DOWNLOAD}    at = [{{}}]", 'Mine has no claim: accepted: claim = "..."'),
    ],
)
def test_what_is_no_experiment_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    with command_error(Exit.USAGE, complaint):
        from_file(path)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with command_error(Exit.NO_INPUT, "no such file"):
        main(["run", str(tmp_path / "mine.py"), "--dry-run"])


def test_one_without_circumstances_is_refused_before_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"{DOWNLOAD}    claim = 'c'")
    with command_error(Exit.USAGE, "mine: has no points: accepted: some in `at` or of points()"):
        main(["run", str(path), "--dry-run"])


def test_its_name_is_the_files_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "v2.legacy.py"
    path.write_text(f"{LEGACY}class Mine(Legacy):\n    pass")
    assert from_file(path).name == "v2-legacy"


def test_what_it_is_made_of_says_still_holds(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("from experiments.scenarios.failover import Failover\nclass Mine(Failover):\n    claim = 'c'")
    made, found = EVERYTHING["failover"], from_file(path)
    assert (found.paper, found.any_links) == (made.paper, made.any_links)
