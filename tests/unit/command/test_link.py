"""A change of a link, as the command line has it."""

import re
from argparse import ArgumentTypeError

import pytest

from command import link
from command.cli import main
from command.link import Change
from tests.refusals import usage_error


def test_a_change_says_what_a_key_becomes() -> None:
    assert link.change("use=backup") == Change("use", "backup")
    assert link.change("use=settings") == Change("use", None)
    assert link.change("download=1000kbit") == Change("download", "1mbit")
    assert link.change("used=12GB") == Change("used", "12GB")


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("use=never", "'primary', 'overflow' or 'backup', or 'settings'"),
        ("use", "'primary'"),
        ("upload=5", "such as '5mbit', or 'settings'"),
        ("used=12", "such as '50MB'"),
        ("used=settings", "such as '50MB'"),
        ("rate=5mbit", "use=, download=, upload=, used="),
    ],
)
def test_another_change_is_refused_and_what_is_accepted_is_said(text: str, accepted: str) -> None:
    with pytest.raises(ArgumentTypeError, match=re.escape(accepted)):
        link.change(text)


@pytest.mark.parametrize("words", [[], ["use=settings"], ["used=1GB"]])
def test_only_what_settings_have_can_be_saved(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    told = usage_error(main, ["link", "lte", *words, "--save"], capsys)
    assert "--save: accepted: with one of use=, download=, upload=" in told
