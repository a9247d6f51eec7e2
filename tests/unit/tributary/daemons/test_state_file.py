import json
import stat
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.refusals import command_error
from tributary.daemons.state_file import StateFile, document_of
from tributary.settings.errors import Exit


def parse(document: Any) -> int:
    return int(document["used"])


DAMAGED = [
    *(b"", b"\0\0\0\0", b"\xff\xfe", b"[]", b"null", b"[" * 100_000),
    *(b'{"used": null}', b'{"used": Infinity}', b'{"used": NaN}', b'{"used": "much"}'),
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_is_renamed_and_reported_and_the_next_one_is_written(tmp_path: Path, content: bytes) -> None:
    """A daemon whose file of what was used is damaged, as by a power cut, starts with nothing used."""
    path, told = tmp_path / "usage.json", list[str]()
    path.write_bytes(content)
    file = StateFile(path)
    assert file.read(parse, told.append) is None
    assert (tmp_path / "usage.json.broken").read_bytes() == content
    assert not path.exists()
    assert len(told) == 1 and str(path) in told[0] and "usage.json.broken" in told[0]
    file.replace({"used": 7})
    assert file.read(parse, told.append) == 7 and len(told) == 1


def test_what_cannot_even_be_renamed_is_reported_and_the_daemon_goes_on(tmp_path: Path) -> None:
    path, told = tmp_path / "usage.json", list[str]()
    path.mkdir()
    (tmp_path / "usage.json.broken").mkdir()
    (tmp_path / "usage.json.broken" / "not-empty").touch()
    assert StateFile(path).read(parse, told.append) is None
    assert "cannot be renamed" in told[0]


def test_who_only_looks_sets_nothing_aside(tmp_path: Path) -> None:
    path = tmp_path / "usage.json"
    path.write_text("[]")
    with command_error(Exit.SYSTEM, "usage.json: cannot be read"):
        StateFile(path).read(parse)
    assert path.exists()


def test_a_file_is_for_nobody_else_to_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "usage.json"
    StateFile(path).replace({"used": 7})
    assert json.loads(path.read_text()) == {"used": 7}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@dataclass(frozen=True)
class Part:
    """A part of what is saved; a later version added the last field."""

    since: date
    used: int
    names: frozenset[str]
    added: str | None = None


PART = Part(date(2026, 11, 10), 7, frozenset({"lte"}))
PARTS = document_of(dict[str, Part])
WHOLE = {"since": "2026-11-10", "used": 7, "names": ["lte"], "added": None}


def test_what_was_saved_or_another_version_wrote_is_read(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "parts.json")
    file.replace({"a": PART})
    assert file.read(PARTS) == {"a": PART}
    assert json.loads((tmp_path / "parts.json").read_text()) == {"a": WHOLE}
    # One field less, which was added since, and one more, which a version to come adds.
    path = tmp_path / "parts.json"
    path.write_text(json.dumps({"a": {"since": "2026-11-10", "used": 7, "names": ["lte"], "to_come": [1]}}))
    assert StateFile(path).read(PARTS) == {"a": PART}


@pytest.mark.parametrize("name", ["since", "used", "names"])
def test_a_document_without_a_field_is_damaged(tmp_path: Path, name: str) -> None:
    path, told = tmp_path / "parts.json", list[str]()
    path.write_text(json.dumps({"a": {key: value for key, value in WHOLE.items() if key != name}}))
    assert StateFile(path).read(PARTS, told.append) is None
    assert f"a.{name}: " in told[0] and StateFile(path).broken.exists()


@pytest.mark.parametrize(
    "wrong",
    [{"used": "7"}, {"used": True}, {"used": 7.0}, {"since": 0}, {"names": "lte"}, {"names": [5]}, {"added": 5}],
)
def test_a_value_of_another_type_is_damage(tmp_path: Path, wrong: dict[str, object]) -> None:
    path, told = tmp_path / "parts.json", list[str]()
    path.write_text(json.dumps({"a": {**WHOLE, **wrong}}))
    assert StateFile(path).read(PARTS, told.append) is None
    assert len(told) == 1 and StateFile(path).broken.exists()
