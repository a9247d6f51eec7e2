"""The claims of the papers on chains of converters and on the hand-off (MOSTO, Miniproxy, Prism)."""

from pathlib import Path

from tests.claims.papers import MARKS, OTHERS, each, no_claim_fails

pytestmark = MARKS


def test_there_are_experiments_of_each_paper() -> None:
    assert len(OTHERS) > 5


@each(sorted(OTHERS))
def test_no_claim_fails(name: str, tmp_path: Path) -> None:
    no_claim_fails(name, tmp_path)
