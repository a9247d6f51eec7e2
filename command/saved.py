"""What is kept of changes at run time: each is a drop-in of a program's settings."""

from collections.abc import Mapping
from pathlib import Path

from tributary.daemons.state_file import unlink, write_atomic
from tributary.settings.files import drop_ins


def save(settings: Path, name: str, table: str, keys: Mapping[str, str]) -> None:
    """Write a ``table`` with these ``keys`` as the drop-in ``name`` of ``settings``; raises CommandError, exit 71."""
    lines = (f'{key} = "{value}"\n' for key, value in keys.items())
    write_atomic(_file(settings, name), f"{table}\n{''.join(lines)}".encode(), mode=0o644)


def forget(settings: Path, name: str) -> bool:
    """Remove that drop-in, and say whether there was one; raises CommandError, exit 71."""
    file = _file(settings, name)
    was_there = file.exists()
    unlink(file)
    return was_there


def _file(settings: Path, name: str) -> Path:
    return drop_ins(settings) / f"{name}.toml"
