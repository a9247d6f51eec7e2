"""The page as a WSGI application (PEP 3333): checks who asks and how, then lets ``image.firstboot`` judge.

One thing is under way at a time; the server calls it from one thread.
"""

import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

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
_HEADERS = (
    ("Content-Security-Policy", views.POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),  # with no-referrer browsers would say Origin: null
    ("Cache-Control", "no-store"),
)


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


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, line: str) -> None:
        super().__init__(line)
        self.status = status


class Page:
    """``host`` is what browsers call it: an address, and the port if it is not 80. ``card`` is what is known by now."""

    def __init__(self, box: Box, host: str, card: Card, address: str) -> None:
        self.accepted = False
        """Whether settings were taken: then it has nothing more to do."""
        self._box, self._host, self._card, self._address = box, host, card, address
        self._token = secrets.token_urlsafe(24)
        self._tables = self._password = ""
        self._draft: _Draft | None = None

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        status, body = self._answer(environ)
        encoded = body.encode()
        headers = [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(encoded))), *_HEADERS]
        start_response(f"{status.value} {status.phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [encoded]

    def _answer(self, environ: Mapping[str, Any]) -> tuple[HTTPStatus, str]:
        try:
            form = self._asked(environ)
            if form is None:
                return HTTPStatus.OK, self._form(Form(address=self._address))
            return self._start() if environ["PATH_INFO"] == "/start" else self._look(form)
        except _Refused as refused:
            return refused.status, views.refused(str(refused))

    def _asked(self, environ: Mapping[str, Any]) -> Form | None:
        """The form that was sent, by who may; None: the page was asked for."""
        # A name that somebody has led to this address (DNS rebinding) is not ours.
        if environ.get("HTTP_HOST") != self._host:
            raise _Refused(HTTPStatus.MISDIRECTED_REQUEST, f"This page is at http://{self._host}/ and nowhere else.")
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path not in ("/", "/look", "/start"):
            raise _Refused(HTTPStatus.NOT_FOUND, "There is one page here, /.")
        if method != ("POST" if path != "/" else "GET") and (path, method) != ("/", "HEAD"):
            raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, "Begin at the page itself, /.")
        return None if path == "/" else self._sent(environ)

    def _sent(self, environ: Mapping[str, Any]) -> Form:
        # Browsers say with each form which site it comes from; who is none may say so, too.
        if environ.get("HTTP_ORIGIN") != f"http://{self._host}":
            raise _Refused(HTTPStatus.FORBIDDEN, "This form does not come from this page (header Origin).")
        if environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() != _FORM:
            raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"accepted: {_FORM}")
        try:
            form = Form.parse(environ["wsgi.input"].read(LARGEST))
        except ValueError as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, "This is not the page's form: open it anew.") from error
        if environ["PATH_INFO"] == "/start" and not self._knows(form):
            raise _Refused(HTTPStatus.FORBIDDEN, "Begin at the page itself, /: the box may have started anew.")
        return form

    def _knows(self, form: Form) -> bool:
        return hmac.compare_digest(form.token.encode(), self._token.encode())

    def _look(self, form: Form) -> tuple[HTTPStatus, str]:
        """What is wrong, or what will be done."""
        wrong_keys, wrong_password = views.wrong_keys(form), views.wrong_password(form)
        if wrong_keys:
            form = replace(form, ssh_keys="")
        if not (self._knows(form) or fits(form.code, self._box.code)):
            return HTTPStatus.FORBIDDEN, self._form(form, Verdict([views.WRONG_CODE]))
        # Pasted secrets are never sent back: who corrects something else leaves the field empty.
        self._tables = form.tables or self._tables
        self._password = "" if wrong_password else form.password or self._password
        form = replace(form, tables=self._tables, password=self._password, token=self._token)
        if wrong := [line for line in (wrong_keys, wrong_password) if line]:
            self._draft = None
            return HTTPStatus.UNPROCESSABLE_ENTITY, self._form(form, Verdict(wrong))
        try:
            base = self._box.content()
            text = form.added_to(base.decode("utf-8-sig"), self._card).encode()
            ahead = self._box.foresee(text)
        except (CommandError, UnicodeDecodeError) as error:
            self._draft = None
            lines = error.lines if isinstance(error, Wrong) else [str(error)]
            wrong = [line.removeprefix(f"{NAME}: ") for line in lines]
            return HTTPStatus.UNPROCESSABLE_ENTITY, self._form(form, Verdict(wrong))
        own = [str(ahead.card.lan.address.ip)] if ahead.card.lan else []
        steps = next_steps(ahead.card, ahead.facts, own)
        self._draft = _Draft(base, text, steps, home_page(ahead.card))
        files = [str(action) for action in ahead.actions]
        return HTTPStatus.OK, self._form(form, Verdict(steps=steps, files=files))

    def _start(self) -> tuple[HTTPStatus, str]:
        draft = self._draft
        if draft is None:
            raise _Refused(HTTPStatus.CONFLICT, "There is nothing to start with: begin at the page itself, /.")
        try:
            if self._box.content() != draft.base:
                raise _Refused(HTTPStatus.CONFLICT, f"{NAME} has changed meanwhile: begin at the page itself, /.")
            self._box.accept(draft.text)
        except CommandError as failure:
            return HTTPStatus.INTERNAL_SERVER_ERROR, views.refused(str(failure))
        self.accepted = True
        return HTTPStatus.OK, views.started(draft.steps, draft.console)

    def _form(self, form: Form, verdict: Verdict | None = None) -> str:
        tables, password = (bool(form.token and secret) for secret in (self._tables, self._password))
        found = self._box.interfaces()
        return views.form(form, self._card, found, verdict or Verdict(), keeps_tables=tables, keeps_password=password)
