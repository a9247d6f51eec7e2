"""The programs of the Rust workspace, built by cargo when they are asked for."""

import os
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

from tributary.paths import CACHE, ROOT
from tributary.settings.errors import CommandError, Exit

_BUILD = ROOT / "scripts/setup.d/programs"
_SINCE = "TRIBUTARY_BUILT_SINCE"
"""A time in the environment, in seconds since 1970: what has been built since then is taken as it is."""


@cache
def works() -> bool:
    """Whether cargo is here and answers: rustup's refuses every command of a user who has no toolchain."""
    try:
        return subprocess.run(["cargo", "--version"], capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def build(*names: str, released: bool = False) -> list[Path]:
    """The programs ``names``, built again if their source has changed; without cargo those that are there. What is
    ``released`` is as packages have it, and takes three times as long.

    Progress goes to standard error. Raises CommandError: exit 69 if one is not there, 71 if it does not build, 77 if
    root has to install packages for that.
    """
    how = ("--released",) if released else ()
    programs = [CACHE / ("released" if released else "bin") / name for name in names]
    if not all(map(_is_built, programs)) and works():
        built = subprocess.run([_BUILD, CACHE, *how, *names], stdout=subprocess.DEVNULL, check=False)
        if built.returncode != 0:
            known = {Exit.UNAVAILABLE, Exit.NO_PERMISSION}
            code = Exit(built.returncode) if built.returncode in known else Exit.SYSTEM
            raise CommandError(code, f"{', '.join(names)}: cannot be built: see above")
    for program in programs:
        if not program.exists():
            raise CommandError(
                Exit.UNAVAILABLE, f"{program}: not found, and no cargo to build it with (scripts/setup brings one)"
            )
    return programs


def _is_built(program: Path) -> bool:
    """Whether cargo need not be asked."""
    since = float(os.environ.get(_SINCE, "inf"))
    with suppress(FileNotFoundError):
        return program.with_name(f"{program.name}.built").stat().st_mtime >= since and program.exists()
    return False


@cache
def sources() -> str:
    """A digest of what the converter is built from, as its build notes it."""
    done = subprocess.run([_BUILD, CACHE, "--sources"], capture_output=True, text=True, check=True)
    return done.stdout.strip()
