"""Changes at run time: as the daemons take them, and kept, each as a drop-in of a program's settings."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from command.mapping import LIMIT
from tributary.api.places import THROTTLER
from tributary.daemons.state_file import unlink, write_atomic
from tributary.settings.files import drop_ins
from tributary.settings.units import PositiveRate


def limit_name(path: str) -> str:
    """The name of the rule that limits a path."""
    return f"{LIMIT}{path}"


def limit_rule(path: str, rate: PositiveRate) -> dict[str, str]:
    """The rule that limits a path, for all sessions together that have another subflow as well."""
    return {"name": limit_name(path), "path": path, "rate": str(rate), "shared_by": "rule"}


def limit(path: str, rate: PositiveRate | None) -> None:
    """Limit a path of the running throttler; None lifts the limit."""
    if rate is None:
        THROTTLER.ask("unset", rule=limit_name(path))
    else:
        THROTTLER.ask("set", rule=limit_rule(path, rate), last=False)


def save(settings: Path, name: str, table: str, keys: Mapping[str, str]) -> None:
    """Write a ``table`` with these ``keys`` as the drop-in ``name`` of ``settings``; raises CommandError, exit 71."""
    lines = (f'{key} = "{value}"\n' for key, value in keys.items())
    write_atomic(_file(settings, name), f"{table}\n{''.join(lines)}".encode(), mode=0o644)


def is_saved(settings: Path, name: str) -> bool:
    """Whether there is that drop-in; also what may not be looked at is none."""
    with suppress(PermissionError):
        return _file(settings, name).exists()
    return False


def forget(settings: Path, name: str) -> bool:
    """Remove that drop-in, and say whether there was one; raises CommandError, exit 71."""
    was_there = is_saved(settings, name)
    unlink(_file(settings, name))
    return was_there


def _file(settings: Path, name: str) -> Path:
    return drop_ins(settings) / f"{name}.toml"
