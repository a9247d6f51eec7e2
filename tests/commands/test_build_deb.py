"""The command line, up to the point where something would be fetched or built."""

import json
from pathlib import Path

import pytest

from debs.__main__ import main
from debs.release import ARCHITECTURES
from tests.refusals import command_error, usage_error
from tests.unit.debs import sample
from tributary.settings.errors import Exit


def test_a_dry_run_says_what_would_be_made_and_makes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert main(["--dry-run", "--json", "--suite", "bookworm", "--arch", "arm64", "--output", str(output)]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["suite"], plan["architecture"]) == ("bookworm", "arm64")
    assert plan["version"].endswith("-1~deb12")
    assert any(wheel.startswith("scapy==") for wheel in plan["wheels"])
    assert not output.exists()


def test_a_program_for_another_processor_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    program = tmp_path / "converter"
    program.write_bytes(sample.elf(ARCHITECTURES["arm64"]))
    with command_error(Exit.USAGE, f"{program}: made for another processor"):
        main(["--arch", "amd64", "--converter", str(program), "--output", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with command_error(Exit.NO_INPUT, "nowhere: cannot be read: No such file"):
        main(["--converter", str(tmp_path / "nowhere")])


@pytest.mark.parametrize("words", [["--suite", "sid"], ["--arch", "riscv64"], ["left-over"]])
def test_wrong_arguments_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert words[-1] in usage_error(main, words, capsys)
