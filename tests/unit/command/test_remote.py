"""How another box is named."""

from argparse import ArgumentTypeError

import pytest

from command.remote import url


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("gw1", "http://gw1:8480"),
        ("gw1:80", "http://gw1:80"),
        ("::1", "http://[::1]:8480"),
        ("[::1]:80", "http://[::1]:80"),
        ("https://gw1.example.net/", "https://gw1.example.net:8480"),
    ],
)
def test_a_host_is_enough(text: str, made: str) -> None:
    assert url(text) == made


@pytest.mark.parametrize("text", ["", "gw1:x", "gw1:70000", "ftp://gw1", "http://gw1/path", "http://user@gw1"])
def test_another_text_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="accepted: HOST, HOST:PORT, or https:// before one of them"):
        url(text)
