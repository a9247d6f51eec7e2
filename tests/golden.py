"""Golden files: what comes of known input, to be read. REMAKE_GOLDEN=1 makes them again, after a wanted change."""

import os
import re
from collections.abc import Mapping
from difflib import unified_diff
from itertools import islice
from pathlib import Path


def with_words(base: str, others: Mapping[str, str]) -> str:
    """With other words wherever these stand, so that no differences from it say them; a place without them is one."""
    for word, other in others.items():
        base = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", other, base)
    return base


def differences(base: str, other: str) -> str:
    """As diff(1) shows them with a line around, but without line numbers, which differ with each change before."""
    lines = unified_diff(base.splitlines(), other.splitlines(), n=1, lineterm="")
    return "".join("@@\n" if line.startswith("@@") else f"{line}\n" for line in islice(lines, 2, None))


def compare(path: Path, text: str) -> None:
    """``text`` is what stands in the golden file; of an empty one there is none."""
    if os.environ.get("REMAKE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if not text:
            path.unlink()
    assert text == (path.read_text() if path.exists() else "")
