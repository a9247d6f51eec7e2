"""What was applied last, and what becomes of a damaged note of it."""

from pathlib import Path

import pytest

from image.firstboot import memory
from image.firstboot.memory import NOTHING, PLACE, Memory

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
