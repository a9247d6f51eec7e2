import subprocess
from pathlib import Path

import pytest

from tributary.paths import ROOT

EXAMPLES = sorted((ROOT / "converter/examples").iterdir())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_right(example: Path, converter: Path) -> None:
    command = [str(converter), "--check", "--config", str(example)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
