"""The page at loopback: the console's server, guard and files around it."""

import http.client
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

import pytest

from console.files import load
from console.guard import LARGEST_HEAD
from image.firstboot.page import serving
from image.firstboot.page.app import LARGEST
from tests.unit.image.firstboot.cards import ENROLMENT
from tests.unit.image.firstboot.page.test_app import FORM, GOOD, Browser


@dataclass
class Served:
    """A page that is served until it has taken settings, or ``over`` is set."""

    behind: Browser
    at: tuple[str, int]
    thread: threading.Thread
    over: threading.Event

    @property
    def host(self) -> str:
        return f"{self.at[0]}:{self.at[1]}"

    def ask(
        self, path: str = "/", fields: Mapping[str, str] | None = None, method: str = "GET", **headers: str
    ) -> tuple[http.client.HTTPResponse, str]:
        own = {"Host": self.host, "Origin": f"http://{self.host}", "Content-Type": FORM}
        connection = http.client.HTTPConnection(*self.at, timeout=20)
        body = None if fields is None else urlencode(fields)
        connection.request(method if fields is None else "POST", path, body, {**own, **headers})
        answer = connection.getresponse()
        found = answer, answer.read().decode()
        connection.close()
        return found


@pytest.fixture
def served() -> Iterator[Served]:
    behind, over = Browser(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        at = listener.getsockname()
        thread = threading.Thread(target=serving.serve, args=(behind.page, listener, lambda: not over.is_set()))
        thread.start()
        yield Served(behind, at, thread, over)
        over.set()
        thread.join(20)


def test_it_has_the_console_s_look_and_no_script(served: Served) -> None:
    answer, page = served.ask()
    assert (answer.status, "no router yet" in page, "<script" in page) == (200, True, False)
    policy = str(answer.headers["Content-Security-Policy"])
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "script-src" not in policy
    # With no-referrer, browsers would say that a form comes from nowhere.
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert (answer.headers["Cache-Control"], answer.headers["X-Content-Type-Options"]) == ("no-store", "nosniff")
    for name in ("style.css", "icon.svg"):
        assert f'"/static/{name}"' in page
        assert served.ask(f"/static/{name}")[1] == load()[name].content.decode()
    answer, page = served.ask(method="HEAD")
    assert (answer.status, page) == (200, "")


def test_the_console_s_guard_refuses_others_in_the_page_s_words(served: Served) -> None:
    good = {**GOOD, "tables": ENROLMENT}
    refused = {
        421: [served.ask(Host="tributary.example"), served.ask("/look", good, Host="evil", Origin="http://evil")],
        403: [served.ask("/look", good, Origin=each) for each in ("null", "http://evil.example", "")],
        415: [served.ask("/look", good, **{"Content-Type": "text/plain"})],
        400: [served.ask("/look", {**good, "surprise": "x"})],
        431: [served.ask("/", None, **{"X-Long": "x" * LARGEST_HEAD})],
        413: [served.ask("/look", None, "POST", **{"Content-Length": str(LARGEST + 1)})],
        404: [served.ask("/other"), served.ask("/static/other")],
        405: [served.ask("/look")],
    }
    for status, answers in refused.items():
        for answer, page in answers:
            assert (answer.status, "<h1>Tributary</h1>" in page, "console.toml" in page) == (status, True, False)
    assert served.behind.card == b""


def test_it_ends_when_settings_were_taken_after_the_whole_answer(served: Served) -> None:
    _, page = served.ask("/look", {**GOOD, "tables": ENROLMENT})
    answer, page = served.ask("/start", {"token": page.partition('name="token" value="')[2].partition('"')[0]})
    assert answer.status == 200 and page.endswith("</html>\n")
    served.thread.join(20)
    assert not served.thread.is_alive() and served.behind.page.accepted


def test_the_last_page_has_its_look() -> None:
    behind = Browser()
    behind.page.accepted = True
    with socket.create_server(("127.0.0.1", 0)) as listener:
        at = listener.getsockname()
        thread = threading.Thread(target=serving.serve, args=(behind.page, listener, lambda: True))
        thread.start()
        answer, _ = Served(behind, at, thread, threading.Event()).ask("/static/style.css")
        thread.join(20)
    assert answer.status == 200 and not thread.is_alive()


def test_who_reads_no_answer_is_nothing_for_the_log(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    request = f"GET /static/style.css HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode()
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.connect(served.at)
        deaf.settimeout(2)
        with pytest.raises(TimeoutError):
            while True:  # until nothing is taken any more: answers wait
                deaf.sendall(request * 100)
        served.over.set()
        served.thread.join(20)
    assert not served.thread.is_alive()
    assert [each.message for each in caplog.records if each.exc_info] == []


def test_it_ends_when_it_may_not_go_on(served: Served) -> None:
    served.over.set()
    served.thread.join(20)
    assert not served.thread.is_alive()
