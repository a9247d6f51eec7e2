"""Runs the programs of the Rust crates in overlay/."""

import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any, NoReturn

from tributary import cargo
from tributary.settings.errors import CommandError, Exit

CALCULATOR = "overlay-paths"
"""The algorithms: the program of the crate overlay/paths."""
_ACCEPTED = {Exit.USAGE, Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE, Exit.IN_USE, Exit.NO_PERMISSION}
"""Exit codes of the programs that are passed on; all others become 71."""


def ask(name: str, arguments: Sequence[str]) -> Any:
    """Builds the program and returns its answer, which is JSON.

    Raises CommandError as ``cargo.build`` does, and with the program's exit code and error message.
    """
    (program,) = cargo.build(name)
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        code = Exit(done.returncode) if done.returncode in _ACCEPTED else Exit.SYSTEM
        raise CommandError(code, done.stderr.strip().removeprefix(f"{name}: "))
    return json.loads(done.stdout)


def execute(name: str, arguments: Sequence[str]) -> NoReturn:
    """Builds the program, and replaces this process by it."""
    (program,) = cargo.build(name)
    os.execv(program, [str(program), *arguments])
