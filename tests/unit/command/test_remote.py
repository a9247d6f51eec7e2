"""How another box is named."""

import socket
import threading
from argparse import ArgumentTypeError

import pytest

from command.console_url import url
from command.remote import Answers
from tests.refusals import command_error
from tributary.settings.errors import Exit


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


@pytest.mark.parametrize(
    "text", ["", "gw1:x", "gw1:70000", "ftp://gw1", "http://gw1/path", "http://user@gw1", "a b", "a..b", "h#x"]
)
def test_another_text_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="accepted: HOST, HOST:PORT, or https:// before one of them"):
        url(text)


@pytest.mark.parametrize(
    ("url", "token", "message"),
    [
        ("http://gw1:8480", "abc", "accepted with a token: https://, or this machine"),
        ("https://gw1:8480", "abc\ndef", "TRIBUTARY_TOKEN: accepted: what 'tributary console token' prints"),
        ("https://gw1:8480", "\N{SNOWMAN}", "TRIBUTARY_TOKEN: accepted"),
    ],
)
def test_a_token_that_would_be_read_on_its_way_is_not_sent(
    url: str, token: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIBUTARY_TOKEN", token)
    with command_error(Exit.USAGE, message) as raised:
        Answers(url).services()
    assert token not in str(raised.value)


@pytest.mark.parametrize(
    "answer",
    [
        b"Content-Length: 4096\r\n\r\n" + 4096 * b"[",
        b"Transfer-Encoding: chunked\r\n\r\nno number\r\n",
        b"Content-Length: 7\r\n\r\n",
    ],
    ids=["deep", "no chunk", "cut"],
)
def test_whatever_another_server_refuses_with_it_is_said_that_it_does(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as accepted:
                accepted.recv(65536)
                accepted.sendall(b"HTTP/1.1 500 No\r\n" + answer)

        server = threading.Thread(target=serve)
        server.start()
        with command_error(Exit.UNAVAILABLE, "status 500"):
            Answers(f"http://127.0.0.1:{listener.getsockname()[1]}").services()
        server.join()
