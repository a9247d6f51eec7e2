"""The page as a part of the console: it is served and guarded as that is, and lets ``image.firstboot`` judge.

One thing is under way at a time: between two requests' bodies nothing waits. After each one others have their turn, as
what looks at the port each second: many requests at once do not keep it from that.
"""

import asyncio
import hmac
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from console import requests, web
from console.requests import Refused
from image.firstboot.boot import Outlook
from image.firstboot.console import home_page
from image.firstboot.first_start import fits
from image.firstboot.interfaces import Interface
from image.firstboot.page import views
from image.firstboot.page.form import Form
from image.firstboot.page.views import Verdict
from image.firstboot.reading import NAME, Wrong
from image.firstboot.report import next_steps
from image.firstboot.settings import Card
from tributary.settings.errors import CommandError

LARGEST = 64 << 10
"""Bytes of a form: a hundred times what is usual."""

_FORM = "application/x-www-form-urlencoded"
_HEADERS = {
    "Content-Security-Policy": views.POLICY,
    "Referrer-Policy": "same-origin",  # with no-referrer browsers would say Origin: null of a form
}
_LINES = {404: "There is one page here, /.", 405: "Begin at the page itself, /."}


@dataclass(frozen=True)
class Box:
    """What the page asks of the box, and has it do. All but the code raise CommandError."""

    code: str
    content: Callable[[], bytes]
    interfaces: Callable[[], Sequence[Interface]]
    foresee: Callable[[bytes], Outlook]
    accept: Callable[[bytes], None]


@dataclass(frozen=True)
class _Draft:
    """A card's file that was judged good, and the one that it was made of."""

    base: bytes
    text: bytes
    steps: Sequence[str]
    console: str | None


def _answer(html: str, status: HTTPStatus = HTTPStatus.OK) -> HTMLResponse:
    return HTMLResponse(html, status, _HEADERS)


async def _sent(request: Request) -> Form:
    try:
        return Form.parse(await requests.body(request, _FORM, LARGEST))
    except ValueError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "This is not the page's form: open it anew.") from error


class Page:
    """``card`` is what is known by now."""

    def __init__(self, box: Box, card: Card, address: str) -> None:
        self.accepted = False
        """Whether settings were taken: then it has nothing more to do."""
        self._box, self._card, self._address = box, card, address
        self._token = secrets.token_urlsafe(24)
        self._tables = self._password = ""
        self._draft: _Draft | None = None
        self._turn = asyncio.Lock()
        routes = [
            Route("/", self._show),
            Route("/look", self._look, methods=["POST"]),
            Route("/start", self._start, methods=["POST"]),
        ]
        self.application = web.application(routes, lambda status, line: _answer(views.refused(line), status), _LINES)

    async def _show(self, _request: Request) -> HTMLResponse:
        return await self._in_turn(self._form, Form(address=self._address))

    async def _look(self, request: Request) -> HTMLResponse:
        return await self._in_turn(self._looked, await _sent(request))

    async def _start(self, request: Request) -> HTMLResponse:
        return await self._in_turn(self._started, await _sent(request))

    async def _in_turn(self, answer: Callable[[Form], HTMLResponse], form: Form) -> HTMLResponse:
        async with self._turn:
            await asyncio.sleep(0)
            return answer(form)

    def _knows(self, form: Form) -> bool:
        return hmac.compare_digest(form.token.encode(), self._token.encode())

    def _looked(self, form: Form) -> HTMLResponse:
        """What is wrong, or what will be done."""
        wrong_keys, wrong_password = views.wrong_keys(form), views.wrong_password(form)
        if wrong_keys:
            form = replace(form, ssh_keys="")
        if not (self._knows(form) or fits(form.code, self._box.code)):
            return self._form(form, Verdict([views.WRONG_CODE]), HTTPStatus.FORBIDDEN)
        # Pasted secrets are never sent back: who corrects something else leaves the field empty.
        self._tables = form.tables or self._tables
        self._password = "" if wrong_password else form.password or self._password
        form = replace(form, tables=self._tables, password=self._password, token=self._token)
        if wrong := [line for line in (wrong_keys, wrong_password) if line]:
            self._draft = None
            return self._form(form, Verdict(wrong), HTTPStatus.UNPROCESSABLE_ENTITY)
        try:
            base = self._box.content()
            text = form.added_to(base.decode("utf-8-sig"), self._card).encode()
            ahead = self._box.foresee(text)
        except (CommandError, UnicodeDecodeError) as error:
            self._draft = None
            lines = error.lines if isinstance(error, Wrong) else [str(error)]
            wrong = [line.removeprefix(f"{NAME}: ") for line in lines]
            return self._form(form, Verdict(wrong), HTTPStatus.UNPROCESSABLE_ENTITY)
        own = [str(ahead.card.lan.address.ip)] if ahead.card.lan else []
        steps = next_steps(ahead.card, ahead.facts, own)
        self._draft = _Draft(base, text, steps, home_page(ahead.card))
        files = [str(action) for action in ahead.actions]
        return self._form(form, Verdict(steps=steps, files=files))

    def _started(self, form: Form) -> HTMLResponse:
        if not self._knows(form):
            raise Refused(HTTPStatus.FORBIDDEN, "Begin at the page itself, /: the box may have started anew.")
        draft = self._draft
        if draft is None:
            raise Refused(HTTPStatus.CONFLICT, "There is nothing to start with: begin at the page itself, /.")
        try:
            if self._box.content() != draft.base:
                raise Refused(HTTPStatus.CONFLICT, f"{NAME} has changed meanwhile: begin at the page itself, /.")
            self._box.accept(draft.text)
        except CommandError as failure:
            raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, str(failure)) from failure
        self.accepted = True
        return _answer(views.started(draft.steps, draft.console))

    def _form(self, form: Form, verdict: Verdict | None = None, status: HTTPStatus = HTTPStatus.OK) -> HTMLResponse:
        tables, password = (bool(form.token and secret) for secret in (self._tables, self._password))
        found = self._box.interfaces()
        shown = views.form(form, self._card, found, verdict or Verdict(), keeps_tables=tables, keeps_password=password)
        return _answer(shown, status)
