"""The claims of the paper on conversion (Pollalis et al.)."""

from pathlib import Path

from tests.claims.papers import MARKS, OTHERS, PAPERS, each, no_claim_fails

pytestmark = MARKS
NAMES = [name for name in PAPERS if name not in OTHERS]


def test_there_are_experiments_of_each_figure() -> None:
    assert len(NAMES) > 10


@each(NAMES)
def test_no_claim_fails(name: str, tmp_path: Path) -> None:
    no_claim_fails(name, tmp_path)
