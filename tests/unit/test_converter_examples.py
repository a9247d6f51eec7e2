from collections.abc import Callable
from pathlib import Path

import pytest

from tributary.paths import ROOT

EXAMPLES = sorted((ROOT / "converter/examples").iterdir())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_right(example: Path, converter_accepts: Callable[[Path], None]) -> None:
    converter_accepts(example)
