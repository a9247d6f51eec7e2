"""Limits that are kept: each a drop-in of the throttler's policy."""

from pathlib import Path

from throttler.policy import model
from tributary.daemons.state_file import unlink, write_atomic


def save(policy: Path, name: str, keys: dict[str, str]) -> None:
    """Write the rule ``name`` with these ``keys`` as a drop-in of ``policy``; raises CommandError, exit 71."""
    lines = (f'{key} = "{value}"\n' for key, value in keys.items())
    write_atomic(_file(policy, name), ("[[rules]]\n" + "".join(lines)).encode(), mode=0o644)


def forget(policy: Path, name: str) -> bool:
    """Remove that drop-in, and say whether there was one; raises CommandError, exit 71."""
    file = _file(policy, name)
    was_there = file.exists()
    unlink(file)
    return was_there


def _file(policy: Path, name: str) -> Path:
    return model.drop_ins(policy) / f"{name}.toml"
