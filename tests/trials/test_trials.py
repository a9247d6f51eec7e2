"""Every trial has tests, and they are there; scripts/python -m tests.trials runs them."""

import re

import pytest

from tests.trials.__main__ import trials
from tributary.paths import ROOT

TRIALS = trials()


def test_they_are_numbered_without_a_gap() -> None:
    assert list(TRIALS) == [f"T{number}" for number in range(1, len(TRIALS) + 1)]


@pytest.mark.parametrize("number", TRIALS)
def test_its_tests_are_there(number: str) -> None:
    assert TRIALS[number]["tests"]
    for test in TRIALS[number]["tests"]:
        path, _, name = test.partition("::")
        keyword = "def" if path.endswith(".py") else "fn"
        assert re.search(rf"\b{keyword} {name}\b", (ROOT / path).read_text()), test
