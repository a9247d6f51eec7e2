"""Programs of another processor while images are made: of several builds at once, none ends what another one needs."""

import platform
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from image.make.foreign import PLACE, runnable

HERE = platform.machine()
OTHER = {"x86_64": ("arm64", "aarch64"), "aarch64": ("amd64", "x86_64")}
missing = HERE not in OTHER or not any(shutil.which(f"qemu-{OTHER[HERE][1]}{end}") for end in ("", "-static"))
ENTRY = PLACE / f"qemu-{OTHER[HERE][1]}" if HERE in OTHER else PLACE
pytestmark = [
    pytest.mark.skipif(missing, reason="no QEMU for programs of another processor"),
    pytest.mark.skipif(ENTRY.exists(), reason=f"{ENTRY} is there already"),
]


def build(locks: Path) -> ExitStack:
    made = ExitStack()
    made.enter_context(runnable(OTHER[HERE][0], locks))
    return made


def test_what_two_builds_need_stays_until_both_are_over(tmp_path: Path) -> None:
    mounted = (PLACE / "status").exists()
    first, second = build(tmp_path), build(tmp_path)
    first.close()
    assert ENTRY.read_text().startswith("enabled"), "the second build still runs such programs"
    third = build(tmp_path)
    second.close()
    assert ENTRY.exists()
    third.close()
    assert not ENTRY.exists()
    assert (PLACE / "status").exists() is mounted


def test_what_somebody_else_made_stays(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    ours.mkdir()
    with build(tmp_path):  # of somebody whose notes are not ours
        build(ours).close()
        assert ENTRY.exists()
    assert not ENTRY.exists()
