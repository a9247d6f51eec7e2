"""Builds and runs the programs of the Rust crates in overlay/."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tributary import cargo
from tributary.paths import CACHE, ROOT
from tributary.settings.errors import CommandError, Exit

_BUILD = ROOT / "scripts/setup.d/overlay"
_ACCEPTED = {Exit.USAGE, Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE, Exit.IN_USE, Exit.NO_PERMISSION}
"""Exit codes of the programs that are passed on; all others become 71."""


def build(name: str, *options: str) -> Path:
    """Builds the program ``name`` if its source has changed; without cargo returns an existing one.

    ``options`` are those of scripts/setup.d/overlay. Raises CommandError: exit 69 if there is none, 71 if it does not
    build, 77 if root has to install packages for the build.
    """
    if cargo.works():
        # Its progress goes to standard error.
        built = subprocess.run([_BUILD, CACHE, *options], check=False)
        if built.returncode != 0:
            code = Exit.NO_PERMISSION if built.returncode == Exit.NO_PERMISSION else Exit.SYSTEM
            raise CommandError(code, f"{name} does not build: see above")
    program = CACHE / "bin" / name
    if not program.exists():
        raise CommandError(
            Exit.UNAVAILABLE, f"{program}: not found, and no cargo to build it with (scripts/setup brings one)"
        )
    return program


def output(program: Path, arguments: Sequence[str]) -> str:
    """Runs the program and returns its output; raises CommandError with its exit code and its error message."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        code = Exit(done.returncode) if done.returncode in _ACCEPTED else Exit.SYSTEM
        raise CommandError(code, done.stderr.strip().removeprefix(f"{program.name}: "))
    return done.stdout
