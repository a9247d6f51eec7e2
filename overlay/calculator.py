"""The program of the Rust crate overlay/paths, which has the algorithms: built when needed, called, its JSON read."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tributary.places import CACHE, ROOT
from tributary.settings.failure import Exit, Failure

_BUILD = ROOT / "scripts/setup.d/overlay"


def build() -> Path:
    """The program, built anew if its source has changed; without cargo the one that is there.

    Raises Failure: exit 69 if there is none, 71 if it does not build.
    """
    if shutil.which("cargo"):
        # What it says on standard error is for whoever waits.
        built = subprocess.run([_BUILD, CACHE], check=False)
        if built.returncode != 0:
            raise Failure(Exit.SYSTEM, "overlay-paths does not build: see above")
    program = CACHE / "bin/overlay-paths"
    if not program.exists():
        raise Failure(
            Exit.UNAVAILABLE, f"{program}: not found, and no cargo to build it with (scripts/setup brings one)"
        )
    return program


def ask(arguments: Sequence[str]) -> Any:
    """What the program answers to ``arguments``; raises Failure with its exit code and its line if it refuses them."""
    done = subprocess.run([build(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        accepted = {Exit.USAGE, Exit.BAD_DATA, Exit.NO_INPUT}
        code = Exit(done.returncode) if done.returncode in accepted else Exit.SYSTEM
        raise Failure(code, done.stderr.strip().removeprefix("overlay-paths: "))
    return json.loads(done.stdout)
