"""The command as a person types it, with Debian's Python alone."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from image.flash.__main__ import main
from tests.unit.image.flash.made import disk_image, files
from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit


def flash_pi(*arguments: object, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    words = [str(ROOT / "scripts/flash-pi"), *map(str, arguments)]
    # Not the environment of the tests: a person's machine has Debian's python3, and no packages for it.
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60, input=""
    )


def test_help_names_every_exit_code_that_it_has() -> None:
    shown = flash_pi("--help")
    assert shown.returncode == 0
    for code in (1, 64, 66, 69, 71, 75, 77, 130, 143):
        assert f" {code} " in shown.stdout


def test_it_needs_the_standard_library_alone() -> None:
    command = ["/usr/bin/python3", "-S", "-m", "image.flash", "--help"]  # -S: no packages of any kind
    environment = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    assert subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False, timeout=60).returncode == 0


def test_a_folder_of_the_same_name_where_a_person_stands_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image/__init__.py").write_text("raise SystemExit(99)")
    assert flash_pi("--help", folder=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("words", "accepted"),
    [
        ([], "accepted: IMAGE and DEVICE, or --list"),
        (["card.img"], "accepted: IMAGE and DEVICE, or --list"),
        (["--list", "card.img"], "--list takes neither"),
        (["--json", "card.img", "/dev/sdb"], "give --yes"),
        (["--dry-run", "--verify-only", "card.img", "/dev/sdb"], "not allowed with"),
        (["--fource", "card.img", "/dev/sdb"], "--fource"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(words: list[str], accepted: str) -> None:
    result = flash_pi(*words)
    assert result.returncode == Exit.USAGE
    assert accepted in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_list_needs_no_root_and_has_a_verdict_on_each_disk() -> None:
    result = flash_pi("--list", "--json")
    assert result.returncode == 0
    disks = [json.loads(line) for line in result.stdout.splitlines()]
    assert all(isinstance(disk["refused"], str) and disk["path"].startswith("/dev/") for disk in disks)


def test_only_root_can_write(tmp_path: Path) -> None:
    image = files(tmp_path, disk_image(10))
    child = os.fork()
    if child == 0:  # somebody else, who need not be able to read the checkout: all is imported
        os.setuid(os.geteuid() or 65534)
        try:
            main(["--yes", str(image), "/dev/null"])
        except CommandError as failure:
            os._exit(failure.code if "use sudo" in str(failure) else 99)
        finally:
            os._exit(98)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == Exit.NO_PERMISSION
