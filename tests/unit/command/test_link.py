"""A change of a link, as the command line has it."""

from argparse import ArgumentTypeError

import pytest

from command import link
from command.cli import parser


def test_a_change_says_when_a_link_is_used_or_what_was_used_of_its_cap() -> None:
    assert link.change("use=backup").use == "backup"
    assert link.change("use=settings").use == "settings"
    used = link.change("used=12GB").used
    assert used is not None and used.amount == 12 * 10**9


@pytest.mark.parametrize("text", ["use=never", "use", "used=12", "used=", "rate=5mbit"])
def test_another_change_is_refused_and_what_is_accepted_is_said(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"accepted: use=USE with 'primary', .* or 'settings', used=SIZE"):
        link.change(text)


@pytest.mark.parametrize("words", [[], ["use=settings"], ["used=1GB"]])
def test_only_a_use_can_be_saved(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().dispatch(["link", "lte", *words, "--save"])
    assert "--save: accepted: with use=USE" in capsys.readouterr().err
