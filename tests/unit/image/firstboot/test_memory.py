"""What was applied last, and what becomes of a damaged note of it."""

import os
from pathlib import Path

import pytest

from image.firstboot import apply, memory
from image.firstboot.actions import EnableUnit, Owner, WriteFile
from image.firstboot.memory import NOTHING, PLACE, Memory
from tests.refusals import command_error
from tributary.settings.errors import CommandError, Exit

APPLIED = Memory("x", ("/etc/tributary/router.toml",), ("tributary-lan@eth1.service",))


def put(root: Path, text: str) -> Path:
    (root / PLACE).parent.mkdir(parents=True)
    (root / PLACE).write_text(text)
    return root / PLACE


def test_what_was_applied_is_remembered(tmp_path: Path) -> None:
    assert memory.read(tmp_path) == NOTHING
    put(tmp_path, APPLIED.text())
    assert memory.read(tmp_path) == APPLIED


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"digest": "x", "files": []}', '{"digest": "x", "files": "/etc/a", "units": []}']
)
def test_a_damaged_note_is_renamed_and_said_and_all_is_applied_anew(tmp_path: Path, text: str) -> None:
    path, told = put(tmp_path, text), list[str]()
    assert memory.read(tmp_path) == NOTHING and path.exists(), "who only looks sets nothing aside"
    assert memory.read(tmp_path, told.append) == NOTHING
    assert not path.exists() and "applied.json.broken" in told[0]


def test_what_a_later_version_adds_is_ignored(tmp_path: Path) -> None:
    put(tmp_path, '{"digest": "x", "files": [], "units": [], "to_come": 5}')
    assert memory.read(tmp_path) == Memory("x", (), ())


ACTIONS = (WriteFile("/etc/new", "new\n", owner=Owner(os.getuid(), os.getgid())), EnableUnit("hostapd@wlan0.service"))


def test_if_power_goes_before_units_are_enabled_all_is_applied_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc").mkdir()
    put(tmp_path, APPLIED.text())
    seen = list[Memory]()
    monkeypatch.setattr(apply, "run", lambda _command: seen.append(memory.read(tmp_path)))
    apply.apply(ACTIONS, "y", apply.System.at(tmp_path))
    begun = Memory("", (*APPLIED.files, "/etc/new"), (*APPLIED.units, "hostapd@wlan0.service"))
    assert seen == [begun], "by the digest of no card, and what either has written goes"
    assert memory.read(tmp_path) == Memory("y", ("/etc/new",), ("hostapd@wlan0.service",))


def test_what_was_applied_before_is_remembered_if_units_cannot_be_enabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_command: object) -> None:
        raise CommandError(Exit.SYSTEM, "no")

    (tmp_path / "etc").mkdir()
    put(tmp_path, APPLIED.text())
    monkeypatch.setattr(apply, "run", refuse)
    with command_error(Exit.SYSTEM, "no"):
        apply.apply(ACTIONS, "y", apply.System.at(tmp_path))
    assert memory.read(tmp_path) == APPLIED and not (tmp_path / "etc/new").exists()
