"""Words that this project once had for itself do not come back into its documentation: readers know the field's."""

import re
from pathlib import Path

import pytest

from tests.unit.test_docs import PAGES
from tributary.paths import ROOT

HOUSE_WORDS = re.compile(r"\b(anew|heeds?|nobody's|ours|said|thaws?|told|whom|yonder)\b", re.IGNORECASE)
CODE = re.compile(r"^( {4}|```.*?^```).*?$|`[^`]*`|\*\*`.*?`\*\*", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_word_that_only_this_house_uses(page: Path) -> None:
    assert HOUSE_WORDS.findall(CODE.sub("", page.read_text())) == []
