"""Runs the program of the Rust crate overlay/paths, which has the algorithms."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from overlay import programs
from tributary import cargo


def build() -> Path:
    """Builds overlay-paths; raises CommandError as ``cargo.build`` does."""
    return cargo.build("overlay-paths")[0]


def ask(arguments: Sequence[str]) -> Any:
    """The program's answer; raises CommandError with its exit code and its error message."""
    return json.loads(programs.output(build(), arguments))
