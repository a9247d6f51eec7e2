"""The page without a socket (ASGI): what it remembers between two requests, and what it forgets."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import pytest

from console import password
from image.firstboot.boot import Outlook
from image.firstboot.interfaces import Interface, Kind
from image.firstboot.page.app import Box, Page
from image.firstboot.plan import plan
from image.firstboot.reading import read
from image.firstboot.settings import Card, Role
from tests.unit.image.firstboot.cards import ENROLMENT
from tests.unit.image.firstboot.systems import facts
from tributary.settings.errors import CommandError, Exit

HOST = "192.168.77.1"
FORM = "application/x-www-form-urlencoded"
PORTS = [Interface(name, Kind.WIRED, "02:00:00:00:00:01", True, name == "end0") for name in ("end0", "enx1", "enx2")]
GOOD = {"code": "abcd-efgh", "lan": "end0", "address": f"{HOST}/24", "link.enx1": "dsl", "link.enx2": "lte"}
SECRET = re.findall('secret = "(.*)"', ENROLMENT)[0]


class Browser:
    """One that asks a page of its own, whose box has ``card`` on its card."""

    def __init__(self, card: str = "") -> None:
        self.card = card.encode()
        self.broken = False
        self.page = Page(
            Box("abcdefgh", lambda: self.card, self.ports, self._foresee, self._accept), Card(), f"{HOST}/24"
        )
        self.shown = ""

    def ports(self) -> list[Interface]:
        return PORTS

    def ask(self, path: str = "/", fields: Mapping[str, str] | None = None, method: str | None = None) -> int:
        return asyncio.run(self.asks(path, fields, method))

    async def asks(self, path: str, fields: Mapping[str, str] | None = None, method: str | None = None) -> int:
        headers = {"host": HOST, "origin": f"http://{HOST}", "content-type": f"{FORM}; charset=UTF-8"}
        scope = {
            "type": "http",
            "method": method or ("GET" if fields is None else "POST"),
            "scheme": "http",
            "server": (HOST, 80),
            "path": path,
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": urlencode(fields or {}).encode()}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.page.application(scope, receive, send)
        self.shown = b"".join(each.get("body", b"") for each in sent).decode()
        return int(sent[0]["status"])

    @property
    def token(self) -> str:
        return str(re.findall(r'name="token" value="([^"]+)"', self.shown)[0])

    def _foresee(self, text: bytes) -> Outlook:
        card = read(text, Role.ROUTER)
        return Outlook(card, facts(Role.ROUTER), "", plan(card, facts(Role.ROUTER)))

    def _accept(self, text: bytes) -> None:
        if self.broken:
            raise CommandError(Exit.SYSTEM, "the card cannot be written")
        self.card = text


@pytest.fixture
def browser() -> Browser:
    return Browser()


def test_a_snippet_that_was_pasted_once_is_kept_and_not_shown(browser: Browser) -> None:
    assert browser.ask("/look", {**GOOD, "tables": ENROLMENT, "link.enx2": ""}) == 422
    assert "two or more" in browser.shown and SECRET not in browser.shown and 'value="dsl"' in browser.shown
    again = {**GOOD, "code": "", "token": browser.token, "tables": ""}
    assert browser.ask("/look", again) == 200
    assert SECRET not in browser.shown
    assert browser.ask("/start", {"token": browser.token}) == 200
    assert browser.page.accepted and SECRET.encode() in browser.card


def test_a_password_is_kept_and_not_shown(browser: Browser) -> None:
    given = {**GOOD, "tables": ENROLMENT, "password": "correct horse"}
    assert browser.ask("/look", {**given, "link.enx2": ""}) == 422
    token = browser.token
    assert browser.ask("/look", {**given, "code": "", "token": token, "password": ""}) == 200
    assert "correct horse" not in browser.shown and "$7$" not in browser.shown
    assert browser.ask("/start", {"token": token}) == 200
    hashed = read(browser.card, Role.ROUTER).console_password_hash
    assert hashed and password.fits("correct horse", hashed)


@pytest.mark.parametrize(("card", "has_console"), [("", True), ('console = "off"\n', False)])
def test_the_last_page_leads_to_the_console_s_if_there_is_one(card: str, has_console: bool) -> None:
    browser = Browser(card)
    assert browser.ask("/look", {**GOOD, "tables": ENROLMENT}) == 200
    assert browser.ask("/start", {"token": browser.token}) == 200
    assert ('<a href="http://192.168.77.1:8480/">' in browser.shown) is has_console


def test_a_password_that_is_too_short_is_refused(browser: Browser) -> None:
    given = {**GOOD, "tables": ENROLMENT, "password": "short"}
    assert browser.ask("/look", given) == 422
    assert "password: accepted: 10 signs or more" in browser.shown and "short" not in browser.shown
    again = {**given, "code": "", "token": browser.token, "password": ""}
    assert browser.ask("/look", again) == 200
    assert browser.ask("/start", {"token": browser.token}) == 200
    assert read(browser.card, Role.ROUTER).console_password_hash is None


def test_a_new_visitor_does_not_learn_whether_anything_was_pasted(browser: Browser) -> None:
    browser.ask()
    before = browser.shown
    browser.ask("/look", {**GOOD, "tables": ENROLMENT})
    browser.ask()
    assert browser.shown == before


@pytest.mark.parametrize("code", ["abcd-efgh", "abcd-efgx"], ids=["known", "unknown"])
@pytest.mark.parametrize(
    "key",
    [
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\n-----END OPENSSH PRIVATE KEY-----",
        f"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n{SECRET}",
    ],
    ids=["OpenSSH", "PuTTY"],
)
def test_a_private_key_is_refused_and_not_sent_back(browser: Browser, key: str, code: str) -> None:
    assert browser.ask("/look", {**GOOD, "code": code, "ssh_keys": key}) in (422, 403)
    assert SECRET not in browser.shown
    assert ("one with a private key" in browser.shown) == (code == GOOD["code"])


def test_a_secret_in_the_field_for_ssh_keys_is_not_sent_back(browser: Browser) -> None:
    assert browser.ask("/look", {**GOOD, "ssh_keys": ENROLMENT}) == 422
    assert "no key in line 1, 2, " in browser.shown
    assert SECRET not in browser.shown


def test_after_a_private_key_the_rest_is_kept(browser: Browser) -> None:
    private = "-----BEGIN OPENSSH PRIVATE KEY-----"
    assert browser.ask("/look", {**GOOD, "tables": ENROLMENT, "ssh_keys": private}) == 422
    token = browser.token
    assert browser.ask("/start", {"token": token}) == 409
    assert browser.ask("/look", {**GOOD, "code": "", "token": token, "tables": ""}) == 200


def test_a_wrong_code_learns_nothing_and_changes_nothing(browser: Browser) -> None:
    assert browser.ask("/look", {**GOOD, "code": "abcd-efgx", "tables": ENROLMENT}) == 403
    assert "The code is another one" in browser.shown and "token" not in browser.shown
    assert browser.ask("/look", {**GOOD, "token": "x" * 32, "code": ""}) == 403


def test_nothing_starts_that_was_not_looked_at(browser: Browser) -> None:
    browser.ask("/look", {**GOOD, "tables": "wrong"})
    assert browser.ask("/start", {"token": browser.token}) == 409
    assert not browser.page.accepted and browser.card == b""


def test_a_card_that_was_edited_meanwhile_is_not_overwritten(browser: Browser) -> None:
    browser.ask("/look", {**GOOD, "tables": ENROLMENT})
    token = browser.token
    browser.card = b'hostname = "other"\n'
    assert browser.ask("/start", {"token": token}) == 409
    assert (browser.page.accepted, browser.card) == (False, b'hostname = "other"\n')


def test_a_card_that_cannot_be_written_is_said(browser: Browser) -> None:
    browser.ask("/look", {**GOOD, "tables": ENROLMENT})
    browser.broken = True
    assert browser.ask("/start", {"token": browser.token}) == 500
    assert "the card cannot be written" in browser.shown and not browser.page.accepted


def test_what_somebody_types_is_text_and_never_markup(browser: Browser) -> None:
    for field in ("address", "ssh_keys", "link.enx1", "lan"):
        browser.ask("/look", {**GOOD, field: '"><script>alert(1)</script>'})
        assert "<script" not in browser.shown


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/", "HEAD", 200),
        ("/", "POST", 405),
        ("/look", "GET", 405),
        ("/start", "PUT", 405),
        ("/favicon.ico", "GET", 404),
    ],
)
def test_each_path_has_its_method(browser: Browser, path: str, method: str, status: int) -> None:
    assert browser.ask(path, method=method) == status
    assert browser.shown


def test_many_requests_at_once_leave_others_their_turn() -> None:
    order: list[str] = []

    class Watched(Browser):
        def ports(self) -> list[Interface]:
            order.append("request")
            return super().ports()

    async def others() -> None:
        while order.count("request") < 20:
            order.append("other")
            await asyncio.sleep(0)

    async def together() -> None:
        browser = Watched()
        asked: list[tuple[str, Mapping[str, str] | None]]
        asked = [("/", None), ("/look", {**GOOD, "code": "wrong"})] * 10
        await asyncio.gather(others(), *(browser.asks(*each) for each in asked))

    asyncio.run(together())
    assert "request request" not in " ".join(order)
