"""A file system that is mounted for a while is out of the folders whatever comes meanwhile."""

import os
from pathlib import Path

import pytest

from image.upgrade import machine
from tests.refusals import command_error
from tributary.settings.errors import Exit


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What programs were run; they do nothing but for what a test says."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("mount", "umount"):
        play(tmp_path, name, "exit 0")
    return tmp_path / "log"


def play(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f'#!/bin/sh\necho {name} "$1" >> {folder}/log\n{script}\n')
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(("change", "unmounted"), [(True, "umount /"), (False, "umount --lazy")])
def test_what_was_mounted_is_unmounted(change: bool, unmounted: str, log: Path) -> None:
    with machine.mounted("/dev/none", change=change) as folder:
        assert folder.is_dir()
    assert log.read_text().splitlines()[1].startswith(unmounted)
    assert not folder.exists()


def test_a_signal_that_comes_while_it_is_mounted_leaves_nothing_mounted(log: Path) -> None:
    """It is asked for by Ctrl-C, which ends the program that mounts: that may have done its work by then."""
    play(log.parent, "mount", "kill -INT $PPID; sleep 5")
    with pytest.raises(KeyboardInterrupt), machine.mounted("/dev/none", change=True):
        raise AssertionError
    assert log.read_text().splitlines() == ["mount -t", "umount --lazy"]


def test_what_cannot_be_mounted_is_not_unmounted(log: Path) -> None:
    play(log.parent, "mount", "echo no such device >&2; exit 32")
    with command_error(Exit.SYSTEM, "no such device"), machine.mounted("/dev/none", change=True):
        raise AssertionError
    assert log.read_text().splitlines() == ["mount -t"]
