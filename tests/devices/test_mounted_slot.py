"""The other slot's file system, mounted by tributary-upgrade: what is in it stays, also when it is busy."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from image.upgrade import machine
from tests.devices.loops import loop
from tributary.settings.errors import CommandError, Exit


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[str]:
    """A device with a file system in which is one file, etc/system."""
    tree = tmp_path / "tree"
    (tree / "etc").mkdir(parents=True)
    (tree / "etc/system").write_text("whole")
    file = tmp_path / "slot"
    subprocess.run(["mkfs.ext4", "-q", "-d", tree, file, "8M"], check=True, timeout=60)
    with loop(file) as device:
        yield str(device)


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder below which it is mounted, which is empty at the end, and has no mounts."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    assert str(place) not in Path("/proc/self/mounts").read_text()
    assert not list(place.iterdir())


def system(device: str) -> str:
    with machine.mounted(device) as root:
        return (root / "etc/system").read_text()


def test_what_is_changed_is_there_the_next_time(slot: str) -> None:
    with machine.mounted(slot, change=True) as root:
        (root / "etc/system").write_text("changed")
    assert system(slot) == "changed"


def test_a_busy_system_is_told_and_stays_whole(slot: str) -> None:
    with pytest.raises(CommandError, match="busy") as failure, machine.mounted(slot, change=True) as root:
        busy = os.open(root / "etc", os.O_RDONLY)
    assert failure.value.code is Exit.SYSTEM
    os.close(busy)
    assert system(slot) == "whole"


def test_who_else_looks_keeps_nobody_from_looking(slot: str) -> None:
    with machine.mounted(slot) as root:
        busy = os.open(root / "etc", os.O_RDONLY)
    os.close(busy)
    assert system(slot) == "whole"


def test_an_interruption_leaves_the_system_whole(slot: str) -> None:
    with pytest.raises(KeyboardInterrupt), machine.mounted(slot, change=True):
        raise KeyboardInterrupt
    assert system(slot) == "whole"


def test_what_is_no_file_system_is_told() -> None:
    with pytest.raises(CommandError, match="mount") as failure, machine.mounted("/dev/null"):
        pass
    assert failure.value.code is Exit.SYSTEM
