"""The API, ``/api/v1``: a table of calls, of which each says who may use it and what it takes and answers."""

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Literal, TypeVar

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from console import access
from console.access import Attempts, Logins, Person
from console.changes import PATIENCE, Changes, Subject, key_of_link, limit_of
from console.history import SECONDS, SPANS, Recorder
from console.journal import Book
from console.looking import Looking, load
from throttler.service.control import CONTROL as THROTTLER
from tributary.api import console as documents
from tributary.api.console import Message
from tributary.api.documents import Session
from tributary.daemons.state_file import StateFile
from tributary.settings.errors import CommandError, Exit
from tributary.settings.hosts import as_address

COOKIE = "tributary-console"
_LONGEST_BODY = 16 << 10
_BODY_TIMEOUT = 5.0
_MOST_STREAMS, _STREAMS_OF_ONE = 128, 104
"""Pages that are open at a time, in all and from one address."""
_SHORTEST_HISTORY_SHARE = 300
"""A history of so many seconds is good for a second."""
_STATUS = {
    Exit.USAGE: HTTPStatus.BAD_REQUEST,
    Exit.NO_PERMISSION: HTTPStatus.FORBIDDEN,
    Exit.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""Of a daemon's failure; of others 500."""

Needs = Literal["nothing", "reading", "managing"]
Network = IPv4Network | IPv6Network
_THROTTLER = replace(THROTTLER, timeout=PATIENCE)
_A = TypeVar("_A", bound=Message)


class Refused(Exception):
    """A request that is answered with a status and a line that says what was wrong."""

    def __init__(self, status: HTTPStatus, line: str) -> None:
        super().__init__(line)
        self.status = status


@dataclass(frozen=True)
class Call:
    """A call: GET takes ``parameters`` with what each accepts, POST takes ``asked``."""

    method: Literal["GET", "POST"]
    path: str
    needs: Needs
    about: str
    act: Callable[[Request], Awaitable[Response]]
    answers: type[Message] | None
    asked: type[Message] | None = None
    parameters: Mapping[str, str] | None = None


class Api:
    """Answers the calls."""

    def __init__(
        self,
        looking: Looking,
        recorder: Recorder,
        changes: Changes,
        book: Book,
        logins: Logins,
        password: StateFile,
        reading: Literal["open", "closed"],
        tell: Callable[[str], None],
    ) -> None:
        self._looking, self._recorder, self._changes, self._book = looking, recorder, changes, book
        self._logins, self._password, self._reading, self._tell = logins, password, reading, tell
        self._attempts = Attempts()
        self._hashing, self._history_lock = asyncio.Lock(), asyncio.Lock()
        self._histories: dict[int, tuple[float, str]] = {}
        self._streams: Counter[str] = Counter()
        d = documents
        self.calls: Sequence[Call] = (
            Call("GET", "who", "nothing", "what whoever asks may do", self._who, d.Who),
            Call("POST", "login", "nothing", "log in; the answer has a cookie", self._login, None, d.Login),
            Call("POST", "logout", "nothing", "log out", self._logout, None),
            Call("GET", "look", "reading", "all that the page shows", self._look, d.Look),
            Call("GET", "stream", "reading", "that as server-sent events, one a second", self._stream, None),
            Call(
                "GET",
                "history",
                "reading",
                "what links carried",
                self._history,
                d.History,
                parameters={"seconds": ", ".join(map(str, SPANS))},
            ),
            Call(
                "GET",
                "sessions",
                "reading",
                "the sessions that fit",
                self._sessions,
                d.Sessions,
                parameters={
                    "client": "an address or a network",
                    "path": "a path's name",
                    "rule": "a rule's name",
                    "sort": ", ".join(_ORDERS),
                    "limit": "1 to 1000",
                },
            ),
            Call("GET", "explain/{token}", "reading", "why a session is throttled", self._explain, d.Explanation),
            Call(
                "GET",
                "journal",
                "reading",
                "what was changed",
                self._journal,
                d.Journal,
                parameters={"limit": "1 to 1000"},
            ),
            Call("POST", "limit", "managing", "limit a path", self._limit, d.Made, d.Limit),
            Call("POST", "link", "managing", "change an access link", self._link, d.Made, d.LinkChange),
            Call("POST", "undo", "managing", "undo a change", self._undo, d.Made, d.Undo),
        )

    def routes(self) -> list[Route]:
        """The calls for Starlette."""
        made = [Route(f"/api/v1/{call.path}", self._endpoint(call), methods=[call.method]) for call in self.calls]
        for route in made:
            # Starlette answers HEAD as GET; a stream without a body would be held and never sent to.
            (route.methods or set()).discard("HEAD")
        return made

    def _endpoint(self, call: Call) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                self._admit(request, call.needs)
                return await call.act(request)
            except Refused as refused:
                return _failed(refused.status, str(refused))
            except CommandError as failure:
                return _failed(_STATUS.get(failure.code, HTTPStatus.INTERNAL_SERVER_ERROR), str(failure))
            except ClientDisconnect:
                return Response(status_code=HTTPStatus.BAD_REQUEST)
            except Exception as error:
                self._tell(f"{request.method} {request.url.path}: {type(error).__name__}: {error}")
                return _failed(HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of the console, which its log names")

        return endpoint

    def _may(self, request: Request, needs: Needs) -> bool:
        is_free = needs == "nothing" or (needs == "reading" and self._reading == "open")
        return is_free or self._person(request) is not None

    def _admit(self, request: Request, needs: Needs) -> None:
        if not self._may(request, needs):
            line = "log in first: sudo tributary console login prints an address that does"
            raise Refused(HTTPStatus.UNAUTHORIZED, line)

    def _person(self, request: Request) -> Person | None:
        secret = request.cookies.get(COOKIE)
        return self._logins.person(secret, _address(request), time.monotonic()) if secret else None

    async def _who(self, request: Request) -> Response:
        person = self._person(request)
        has_password = self._kept_password() is not None
        name = person.name if person else None
        return _answer(
            documents.Who(manages=person is not None, name=name, reading=self._reading, password=has_password)
        )

    def _kept_password(self) -> Any:
        return self._password.read(access.checked, self._tell)

    async def _login(self, request: Request) -> Response:
        asked = await _read(request, documents.Login)
        address, now = _address(request), time.monotonic()
        # Nobody guesses 256 bits: a token works also while somebody tries passwords.
        if not asked.token and not self._attempts.admits(address, now):
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too many attempts: wait for half a minute")
        name = self._logins.redeemed(asked.token, now) if asked.token else await self._by_password(asked.password or "")
        if name is None:
            raise Refused(
                HTTPStatus.FORBIDDEN, "wrong, or used already: sudo tributary console login prints a new address"
            )
        self._attempts.forget(address)
        answer = Response(status_code=HTTPStatus.NO_CONTENT)
        answer.set_cookie(
            COOKIE,
            self._logins.login(name, address, now),
            max_age=int(access.LOGIN_LIFETIME),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def _by_password(self, password: str) -> str | None:
        kept = self._kept_password()
        if kept is None:
            return None
        # One at a time: each takes 16 MiB.
        async with self._hashing:
            return "password" if await asyncio.to_thread(access.fits, password, kept) else None

    async def _logout(self, request: Request) -> Response:
        self._logins.logout(request.cookies.get(COOKIE, ""))
        answer = Response(status_code=HTTPStatus.NO_CONTENT)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    async def _look(self, _request: Request) -> Response:
        await self._looking.latest()
        return Response(self._looking.text, media_type="application/json")

    async def _stream(self, request: Request) -> Response:
        address = _address(request)
        if self._streams[address] >= _STREAMS_OF_ONE or self._streams.total() >= _MOST_STREAMS:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"{self._streams.total()} pages are open already")

        async def events() -> AsyncIterator[bytes]:
            async for text in self._looking.texts():
                if not self._may(request, "reading"):  # logged out meanwhile
                    return
                yield b"event: look\ndata: " + text + b"\n\n"

        def ended() -> None:
            self._streams -= Counter([address])  # which drops those without any

        self._streams[address] += 1
        return _Stream(events(), ended)

    async def _history(self, request: Request) -> Response:
        seconds = _number(request, "seconds", SECONDS, max(SPANS))
        if seconds not in SPANS:
            line = f"seconds = {seconds}: accepted: {', '.join(map(str, SPANS))}"
            raise Refused(HTTPStatus.BAD_REQUEST, line)
        # One at a time, and for all pages together: a week of many links takes a while.
        async with self._history_lock:
            now, kept = time.time(), seconds / _SHORTEST_HISTORY_SHARE
            made, text = self._histories.get(seconds, (0.0, ""))
            if not 0 <= now - made < kept:
                text = (await asyncio.to_thread(self._recorder.history, seconds, now)).model_dump_json()
                self._histories[seconds] = now, text
        return Response(text, media_type="application/json")

    async def _sessions(self, request: Request) -> Response:
        seen = await self._looking.latest()
        clients = _network(request)
        fits = [session for session in seen.sessions.documents if _fits(session, request, clients)]
        order = request.query_params.get("sort", "sent_rate")
        if order not in _ORDERS:
            raise Refused(HTTPStatus.BAD_REQUEST, f"sort = {order!r}: accepted: {', '.join(_ORDERS)}")
        fits.sort(key=_ORDERS[order])
        return _answer(
            documents.Sessions(sessions=tuple(fits[: _number(request, "limit", 100, 1000)]), total=len(fits))
        )

    async def _explain(self, request: Request) -> Response:
        ends = [request.path_params["token"]]
        answer = await asyncio.to_thread(_THROTTLER.ask, "explain", ends=ends)
        return _answer(documents.Explanation.model_validate(answer))

    async def _journal(self, request: Request) -> Response:
        most = _number(request, "limit", 100, 1000)
        try:
            return _answer(documents.Journal(entries=await asyncio.to_thread(self._book.newest, most)))
        except (sqlite3.Error, OSError) as error:
            raise CommandError(Exit.SYSTEM, f"the journal cannot be read: {error}") from error

    async def _limit(self, request: Request) -> Response:
        asked = await _read(request, documents.Limit)
        return await self._made(request, limit_of(asked.path), asked.rate)

    async def _link(self, request: Request) -> Response:
        asked = await _read(request, documents.LinkChange)
        return await self._made(request, key_of_link(asked.link, asked.key), asked.value)

    async def _made(self, request: Request, subject: Subject, value: str | None) -> Response:
        return _answer(documents.Made(entry=await self._changes.make(self._name(request), subject, value)))

    async def _undo(self, request: Request) -> Response:
        asked = await _read(request, documents.Undo)
        return _answer(documents.Made(entry=await self._changes.undo(self._name(request), asked.entry)))

    def _name(self, request: Request) -> str:
        person = self._person(request)
        if person is None:  # it has just run out
            raise Refused(HTTPStatus.UNAUTHORIZED, "log in again")
        return person.name


_ORDERS: Mapping[str, Callable[[Session], Any]] = {
    "sent_rate": lambda session: -load(session),
    "age": lambda session: session.age,
    "throttled": lambda session: -session.throttled,
    "client": lambda session: session.client,
}


class _Stream(StreamingResponse):
    """Server-sent events; ``ended`` is called however they end."""

    def __init__(self, events: AsyncIterator[bytes], ended: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the browser goes."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


def _fits(session: Session, request: Request, clients: Network | None) -> bool:
    asked = request.query_params
    return (
        (clients is None or _is_of(session.client, clients))
        and ("path" not in asked or any(subflow.path == asked["path"] for subflow in session.subflows))
        and ("rule" not in asked or any(asked["rule"] in (each.rule, each.counted_by) for each in session.subflows))
    )


def _network(request: Request) -> Network | None:
    text = request.query_params.get("client")
    try:
        return None if text is None else ip_network(text)
    except ValueError as error:
        line = f"client = {text!r}: accepted: an address, or a network without host bits"
        raise Refused(HTTPStatus.BAD_REQUEST, line) from error


def _is_of(client: str, network: Network) -> bool:
    address = as_address(client)
    return address is not None and address in network


def _number(request: Request, name: str, usual: int, most: int) -> int:
    text = request.query_params.get(name, str(usual))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise Refused(HTTPStatus.BAD_REQUEST, f"{name} = {text[:40]!r}: accepted: 1 to {most}")
    return int(text)


async def _read(request: Request, model: type[_A]) -> _A:
    """What was sent, of which no more is read than it may have."""
    body = b""
    try:
        async with asyncio.timeout(_BODY_TIMEOUT):
            async for part in request.stream():
                body += part
                if len(body) > _LONGEST_BODY:
                    raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"accepted: {_LONGEST_BODY} bytes")
        return model.model_validate_json(body)
    except TimeoutError as error:
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the request"
        raise Refused(HTTPStatus.BAD_REQUEST, f"{where}: {first['msg']}") from error


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _answer(document: Message) -> Response:
    return Response(document.model_dump_json(), media_type="application/json")


def _failed(status: HTTPStatus, line: str) -> Response:
    return JSONResponse(documents.Refusal(error=line).model_dump(), status)
