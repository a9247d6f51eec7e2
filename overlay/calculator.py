"""The program of the Rust crate overlay/paths, which has the algorithms: called, its JSON read."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from overlay import programs


def build() -> Path:
    """The program; raises CommandError as ``programs.build`` does."""
    return programs.build("overlay-paths")


def ask(arguments: Sequence[str]) -> Any:
    """What the program answers to ``arguments``; raises CommandError with its exit code and its line if it refuses
    them.
    """
    return json.loads(programs.answer(build(), arguments))
