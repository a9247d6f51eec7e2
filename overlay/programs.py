"""Runs the programs of the Rust crates in overlay/."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tributary.settings.errors import CommandError, Exit

_ACCEPTED = {Exit.USAGE, Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE, Exit.IN_USE, Exit.NO_PERMISSION}
"""Exit codes of the programs that are passed on; all others become 71."""


def output(program: Path, arguments: Sequence[str]) -> str:
    """Runs the program and returns its output; raises CommandError with its exit code and its error message."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        code = Exit(done.returncode) if done.returncode in _ACCEPTED else Exit.SYSTEM
        raise CommandError(code, done.stderr.strip().removeprefix(f"{program.name}: "))
    return done.stdout
