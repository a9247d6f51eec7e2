"""The programs of the Rust crates in overlay/: built when needed, called."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tributary.paths import CACHE, ROOT
from tributary.settings.errors import CommandError, Exit

_BUILD = ROOT / "scripts/setup.d/overlay"
_ACCEPTED = {Exit.USAGE, Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE, Exit.IN_USE, Exit.NO_PERMISSION}
"""Exit codes of theirs that are ours as well; all others are a refusal of the system's."""


def build(name: str, *options: str) -> Path:
    """The program ``name``, built anew if its source has changed; without cargo the one that is there.

    ``options`` are those of scripts/setup.d/overlay. Raises CommandError: exit 69 if there is none, 71 if it does not
    build, 77 if root has to install what building takes.
    """
    if shutil.which("cargo"):
        # What it says on standard error is for whoever waits.
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


def answer(program: Path, arguments: Sequence[str]) -> str:
    """What the program prints; raises CommandError with its exit code and its line if it refuses the arguments."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        code = Exit(done.returncode) if done.returncode in _ACCEPTED else Exit.SYSTEM
        raise CommandError(code, done.stderr.strip().removeprefix(f"{program.name}: "))
    return done.stdout
