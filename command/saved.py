"""Limits that are kept: each a drop-in of the throttler's policy."""

import os
from pathlib import Path

from throttler.policy import model
from tributary.settings.errors import CommandError, Exit


def save(policy: Path, name: str, keys: dict[str, str]) -> Path:
    """Write the rule ``name`` with these ``keys`` as a drop-in of ``policy``; raises CommandError, exit 71."""
    file = _file(policy, name)
    lines = (f'{key} = "{value}"\n' for key, value in keys.items())
    new = file.with_name(f".{file.name}.new")
    try:
        file.parent.mkdir(mode=0o755, exist_ok=True)
        with new.open("w") as written:
            written.write("[[rules]]\n" + "".join(lines))
            written.flush()
            os.fsync(written.fileno())
        new.replace(file)
    except OSError as error:
        raise CommandError(Exit.SYSTEM, f"{file}: cannot be written: {error.strerror}") from error
    return file


def forget(policy: Path, name: str) -> bool:
    """Remove that drop-in, and say whether there was one; raises CommandError, exit 71."""
    file = _file(policy, name)
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CommandError(Exit.SYSTEM, f"{file}: cannot be removed: {error.strerror}") from error
    return True


def _file(policy: Path, name: str) -> Path:
    return model.drop_ins(policy) / f"{name}.toml"
