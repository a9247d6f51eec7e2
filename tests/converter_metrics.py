"""The converter's metrics as docs/converter-reference.md lists them.

tests/unit/test_monitoring.py compares the list with the source, tests/netns/test_converter_status.py with what a
converter serves.
"""

import re

from tributary.paths import ROOT

_NAME = re.compile(r"`([a-z]+_[a-z_]+)(?:\{([a-z,]+)\})?`")
_PARENTHESIS = re.compile(r"\([^()]*\)")


def listed() -> dict[str, frozenset[str]]:
    """Labels by name."""
    page = (ROOT / "docs/converter-reference.md").read_text()
    table = page.partition("\n## Metrics and log\n")[2].partition("|---|---|\n")[2].partition("\n\n")[0]
    # Explanations are in parentheses, with links whose targets are in parentheses of their own.
    names = _NAME.findall(_PARENTHESIS.sub("", _PARENTHESIS.sub("", table)))
    return {f"tributary_converter_{name}": frozenset(filter(None, labels.split(","))) for name, labels in names}
