"""The API, ``/api/v1``: a table of calls, of which each says who may use it and what it takes and answers."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Literal

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from command import box
from command.show import Listed
from console import requests
from console.access import counted_as
from console.changes import PATIENCE, Changes, Subject
from console.door import Door
from console.history import SECONDS, SPANS, Recorder
from console.journal import TO, Book
from console.looking import Looking, Seen, load
from console.requests import Needs, Refused
from tributary.api import console as documents
from tributary.api.console import Message
from tributary.api.documents import Session
from tributary.api.places import GATEWAY, THROTTLER
from tributary.daemons.control import Silent
from tributary.settings import bypass
from tributary.settings.errors import CommandError, Exit
from tributary.settings.hosts import as_address, by_number
from tributary.settings.privacy import Privacy
from tributary.wireguard.addresses import BLOCK

_MOST_STREAMS, _STREAMS_OF_ONE = 128, 104
"""Pages that are open at a time, in all and from one address."""
_SHORTEST_HISTORY_SHARE = 300
"""A history of so many seconds is good for a second."""
_SESSIONS_SHARE = 2.0
"""Seconds for which an answer of the throttler's about sessions is good."""
_TUNNELS_SHARE = 10.0
"""Seconds for which one of the gateway's service about home routers' tunnels is, also that there was none."""
_STATUS = {
    Exit.USAGE: HTTPStatus.BAD_REQUEST,
    Exit.NO_PERMISSION: HTTPStatus.FORBIDDEN,
    Exit.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Exit.IN_USE: HTTPStatus.CONFLICT,
}
"""Of a daemon's failure; of others 500."""

Network = IPv4Network | IPv6Network
_GATEWAY = replace(GATEWAY, timeout=PATIENCE)
_THROTTLER = replace(THROTTLER, timeout=PATIENCE)


@dataclass(frozen=True)
class Call:
    """A call: GET takes ``parameters``, each with its JSON Schema, POST takes ``asked``, which ``act`` gets."""

    method: Literal["GET", "POST"]
    path: str
    needs: Needs
    about: str
    act: Callable[..., Awaitable[Message | Response]]
    answers: type[Message] | None
    asked: type[Message] | None = None
    parameters: Mapping[str, Mapping[str, object]] | None = None
    streams: bool = False
    """Whether it answers by server-sent events."""


@dataclass
class _Tunnels:
    """The addresses of each home router's tunnels as they were known last, and why they were not found out since."""

    asked: float = float("-inf")
    found: Mapping[str, Sequence[str]] | None = None
    failure: CommandError | None = None


class Api:
    """Answers the calls."""

    def __init__(
        self,
        looking: Looking,
        recorder: Recorder,
        changes: Changes,
        book: Book,
        door: Door,
        tell: Callable[[str], None],
    ) -> None:
        self._looking, self._recorder, self._changes, self._book = looking, recorder, changes, book
        self._door, self._tell = door, tell
        self._history_lock, self._routers_lock = asyncio.Lock(), asyncio.Lock()
        self._sessions_lock, self._tunnels_lock = asyncio.Lock(), asyncio.Lock()
        self._tunnels = _Tunnels()
        self._found: dict[str, tuple[float, Listed[Session]]] = {}
        self._histories: dict[int, tuple[float, str]] = {}
        self._streams: Counter[str] = Counter()
        d = documents
        self.calls: Sequence[Call] = (
            Call("GET", "who", "nothing", "what whoever asks may do", door.who, d.Who),
            Call("POST", "login", "nothing", "log in; the answer has a cookie", door.login, None, d.Login),
            Call("POST", "logout", "nothing", "log out", door.logout, None),
            Call("GET", "look", "reading", "all that the page shows", self._look, d.Look),
            Call(
                "GET", "stream", "reading", "that as server-sent events, one a second", self._stream, None, streams=True
            ),
            Call("GET", "history", "reading", "what links carried", self._history, d.History, None, _SECONDS),
            Call("GET", "sessions", "reading", "the sessions that fit", self._sessions, d.Sessions, None, _FILTERS),
            Call("GET", "explain/{token}", "reading", "why a session is throttled", self._explain, d.Explanation),
            Call("GET", "journal", "reading", "what was changed", self._journal, d.Journal, None, _LIMIT),
            Call("POST", "limit", "managing", "limit a path", self._limit, d.Made, d.Limit),
            Call("POST", "link", "managing", "change an access link", self._link, d.Made, d.LinkChange),
            Call("POST", "bypass", "managing", "lead something past the tunnels", self._bypass, d.Made, d.BypassChange),
            Call("GET", "routers", "managing", "the home routers of this gateway", self._routers, d.Routers),
            Call("POST", "enrol", "managing", "let a home router in", self._enrol, d.Enrolled, d.RouterName),
            Call("POST", "revoke", "managing", "let it in no longer", self._revoke, d.Revoked, d.RouterName),
            Call("POST", "preview", "managing", "what a rule would be about", self._preview, d.Preview, d.TriedRule),
            Call("POST", "fix", "managing", "have the doctor fix something", self._fix, d.Fixed, d.Fix),
            Call("POST", "undo", "managing", "undo a change", self._undo, d.Made, d.Undo),
        )

    @property
    def open_pages(self) -> int:
        """How many pages, or programs, follow the looks now."""
        return self._streams.total()

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
                self._door.admit(request, call.needs)
                asked = [await requests.read(request, call.asked)] if call.asked else []
                answer = await call.act(request, *asked)
                return answer if isinstance(answer, Response) else requests.answer(answer)
            except Refused as refused:
                return requests.failed(refused.status, str(refused))
            except CommandError as failure:
                return requests.failed(_STATUS.get(failure.code, HTTPStatus.INTERNAL_SERVER_ERROR), str(failure))
            except ClientDisconnect:
                return Response(status_code=HTTPStatus.BAD_REQUEST)
            except Exception as error:
                self._tell(f"{request.method} {request.url.path}: {type(error).__name__}: {error}")
                return requests.failed(HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of the console, which its log names")

        return endpoint

    async def _look(self, _request: Request) -> Response:
        await self._looking.latest()
        return Response(self._looking.text, media_type="application/json")

    async def _stream(self, request: Request) -> Response:
        address = counted_as(requests.address(request))
        if self._streams[address] >= _STREAMS_OF_ONE or self._streams.total() >= _MOST_STREAMS:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"{self._streams.total()} pages are open already")

        async def events() -> AsyncIterator[bytes]:
            async for text in self._looking.texts():
                if not self._door.may(request, "reading"):  # logged out meanwhile
                    return
                yield b"event: look\ndata: " + text + b"\n\n"

        def ended() -> None:
            self._streams -= Counter([address])  # which drops those without any

        self._streams[address] += 1
        return _Stream(events(), ended)

    async def _history(self, request: Request) -> Response:
        seconds = requests.number(request, "seconds", SECONDS, max(SPANS))
        if seconds not in SPANS:
            raise Refused(HTTPStatus.BAD_REQUEST, f"seconds = {seconds}: accepted: {', '.join(map(str, SPANS))}")
        # One at a time, and for all pages together: a week of many links takes a while.
        async with self._history_lock:
            now, kept = time.time(), seconds / _SHORTEST_HISTORY_SHARE
            made, text = self._histories.get(seconds, (0.0, ""))
            if not 0 <= now - made < kept:
                text = (await asyncio.to_thread(self._recorder.history, seconds, now)).model_dump_json()
                self._histories[seconds] = now, text
        return Response(text, media_type="application/json")

    async def _sessions(self, request: Request) -> Message:
        seen = await self._looking.latest()
        clients = await self._clients(request, seen.privacy)
        sort = request.query_params.get("sort", "-sent_rate")
        order, descending = sort.removeprefix("-"), sort.startswith("-")
        if order not in _ORDERS:
            raise Refused(HTTPStatus.BAD_REQUEST, f"sort = {sort[:40]!r}: accepted: {_SORT}")
        if (throttled := request.query_params.get("throttled", "false")) not in ("true", "false"):
            raise Refused(HTTPStatus.BAD_REQUEST, f"throttled = {throttled[:40]!r}: accepted: true or false")
        most = requests.number(request, "limit", 100, 1000)
        offset = requests.number(request, "offset", 0, _LAST, least=0)
        # What is shown of clients may be less than what the throttler compares.
        is_long = seen.sessions.total > len(seen.sessions.documents)
        if clients != [] and (is_long or (clients and seen.sessions.documents)):
            # The throttler knows no rates.
            by = {"sort": "sent" if order == "sent_rate" else order, "descending": descending}
            return await self._asked_sessions(seen, offset, {**_asked(request, clients), **by, "limit": most})
        fits = [session for session in seen.sessions.documents if _fits(session, request, clients)]
        fits.sort(key=_ORDERS[order], reverse=descending)
        return documents.Sessions(sessions=tuple(fits[offset : offset + most]), offset=offset, total=len(fits))

    async def _clients(self, request: Request, privacy: Privacy) -> Sequence[Network] | None:
        """The networks of clients that are asked for, of a home router those of its tunnels; None: all."""
        network, router = _network(request), request.query_params.get("router")
        if router is None:
            return None if network is None else [network]
        # Whose tunnels these are is for those who may see the routers.
        self._door.admit(request, "managing")
        if privacy != "full":
            accepted = "none, as sessions are found by router only where privacy = 'full'"
            raise Refused(HTTPStatus.BAD_REQUEST, f"router = {router[:40]!r}: accepted: {accepted}")
        found = await self._known_tunnels()
        if router not in found:
            line = f"router = {router[:40]!r}: accepted: {', '.join(found) or 'nothing, as none is enrolled'}"
            raise Refused(HTTPStatus.BAD_REQUEST, line)
        blocks = {ip_network((address, BLOCK), strict=False) for address in found[router]}
        return sorted(blocks) if network is None else _common(blocks, network)

    async def _known_tunnels(self) -> Mapping[str, Sequence[str]]:
        """The addresses of each home router's tunnels; raises CommandError."""
        # One question for all pages together: each starts tools at the gateway. Others do not wait for it.
        async with self._tunnels_lock:
            kept = self._tunnels
            if time.monotonic() - kept.asked >= _TUNNELS_SHARE:
                await _find_out(kept)
        if kept.found is None and kept.failure is not None:
            raise CommandError(kept.failure.code, str(kept.failure))
        return kept.found or {}

    async def _changed(self, access: Awaitable[Mapping[str, Any]]) -> Mapping[str, Any]:
        """The answer to a change of a router's access, after which tunnels may be others, whatever came of it."""
        try:
            return await access
        finally:
            # Not emptied: an answer from before the change may still be on its way into the old one.
            self._tunnels = _Tunnels()

    async def _asked_sessions(self, seen: Seen, offset: int, query: dict[str, object]) -> Message:
        """Those that the throttler finds among all, with the rates of those that were seen."""
        key = str((offset, query))
        # One question at a time, and for all pages together: each makes the throttler look at all sessions.
        async with self._sessions_lock:
            now = time.monotonic()
            self._found = {asked: each for asked, each in self._found.items() if now - each[0] < _SESSIONS_SHARE}
            if key not in self._found:
                ask = partial(box.Answers(PATIENCE).sessions, offset=offset, **query)
                self._found[key] = now, await asyncio.to_thread(ask)
            found = self._found[key][1]
        known = {session.token: session for session in seen.sessions.documents}
        sessions = tuple(known.get(session.token, session) for session in found.documents)
        return documents.Sessions(sessions=sessions, offset=offset, total=found.total)

    async def _explain(self, request: Request) -> Message:
        ends = [request.path_params["token"]]
        answer = await asyncio.to_thread(_THROTTLER.ask, "explain", ends=ends)
        return documents.Explanation.model_validate(answer)

    async def _routers(self, _request: Request) -> Message:
        return documents.Routers.model_validate(await self._ask_routers())

    async def _ask_routers(self) -> Mapping[str, Any]:
        # One at a time: each takes a thread, and starts tools at the gateway.
        async with self._routers_lock:
            return await asyncio.to_thread(_GATEWAY.ask, "routers")

    async def _enrol(self, request: Request, asked: documents.RouterName) -> Message:
        # Not at the top: segno is for this alone. Not later: the secret that is made comes once.
        import segno

        answer = await self._changed(self._changes.enrol(self._door.name(request), asked.name))
        code = segno.make(answer["settings"], error="l").svg_data_uri(scale=3, border=4, light="#fff")
        return documents.Enrolled.model_validate({**answer, "qr": code})

    async def _revoke(self, request: Request, asked: documents.RouterName) -> Message:
        answer = await self._changed(self._changes.revoke(self._door.name(request), asked.name))
        return documents.Revoked.model_validate(answer)

    async def _fix(self, request: Request, asked: documents.Fix) -> Message:
        seen = await self._looking.latest()
        found = seen.look.examined.findings if seen.look.examined else ()
        names = {finding.fix_name for finding in found if finding.fix_name is not None}
        if asked.name not in names:
            accepted = ", ".join(sorted(names)) or "nothing, as the doctor has found nothing that it may fix"
            raise Refused(HTTPStatus.BAD_REQUEST, f"name = {asked.name!r}: accepted: {accepted}")
        return await self._changes.fix(self._door.name(request), asked.name)

    async def _preview(self, _request: Request, asked: documents.TriedRule) -> Message:
        answer = await asyncio.to_thread(_THROTTLER.ask, "preview", rule=asked.rule)
        return documents.Preview.model_validate(answer)

    async def _journal(self, request: Request) -> Message:
        most = requests.number(request, "limit", 100, 1000)
        return documents.Journal(entries=await asyncio.to_thread(self._book.newest, most))

    async def _limit(self, request: Request, asked: documents.Limit) -> Message:
        return await self._made(request, Subject("path", asked.path, "limit"), asked.rate)

    async def _link(self, request: Request, asked: documents.LinkChange) -> Message:
        return await self._made(request, Subject("link", asked.link, asked.key), asked.value)

    async def _bypass(self, request: Request, asked: documents.BypassChange) -> Message:
        return await self._made(request, Subject("bypass", bypass.parsed(asked.match), TO), asked.to)

    async def _made(self, request: Request, subject: Subject, value: str | None) -> Message:
        return documents.Made(entry=await self._changes.make(self._door.name(request), subject, value))

    async def _undo(self, request: Request, asked: documents.Undo) -> Message:
        return documents.Made(entry=await self._changes.undo(self._door.name(request), asked.entry))


_ORDERS: Mapping[str, Callable[[Session], Any]] = {
    "sent_rate": load,
    "age": lambda session: session.age,
    "client": lambda session: by_number(session.client),
    "throttled": lambda session: session.throttled,
    "sent": lambda session: session.sent or 0,
    "received": lambda session: session.received or 0,
}
_LAST = 10**9 - 1

_LIMIT = {"limit": {"type": "integer", "minimum": 1, "maximum": 1000}}
_SECONDS = {"seconds": {"type": "integer", "enum": list(SPANS)}}
_SORT = f"{', '.join(_ORDERS)}; from the largest with - before it, as is usual: -sent_rate"
_FILTERS: Mapping[str, Mapping[str, object]] = {
    "client": {"type": "string", "description": "an address or a network"},
    "path": {"type": "string", "description": "a path's name"},
    "rule": {"type": "string", "description": "a rule's name"},
    "router": {"type": "string", "description": "a home router's name, of who has logged in"},
    "token": {"type": "string", "description": "a session's token"},
    "throttled": {"type": "boolean", "description": "true: only sessions with a throttled subflow"},
    "sort": {"type": "string", "enum": [sign + order for order in _ORDERS for sign in ("", "-")], "description": _SORT},
    "offset": {"type": "integer", "minimum": 0, "maximum": _LAST, "description": "how many sessions to leave out"},
    **_LIMIT,
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


async def _find_out(kept: _Tunnels) -> None:
    """Ask the gateway's service; while it does not answer, what was known stays good."""
    try:
        answer = await asyncio.to_thread(_GATEWAY.ask, "routers")
        kept.found, kept.failure = {each["name"]: each["addresses"] for each in answer["routers"]}, None
    except CommandError as failure:
        kept.found, kept.failure = kept.found if isinstance(failure, Silent) else None, failure
    kept.asked = time.monotonic()


def _fits(session: Session, request: Request, clients: Sequence[Network] | None) -> bool:
    asked = request.query_params
    return (
        (clients is None or any(_is_of(session.client, each) for each in clients))
        and ("token" not in asked or session.token == asked["token"])
        and (asked.get("throttled") != "true" or session.throttled > 0)
        and ("path" not in asked or any(subflow.path == asked["path"] for subflow in session.subflows))
        and ("rule" not in asked or any(asked["rule"] in (each.rule, each.counted_by) for each in session.subflows))
    )


def _asked(request: Request, clients: Sequence[Network] | None) -> dict[str, object]:
    """The same for the throttler."""
    asked = {name: request.query_params[name] for name in ("path", "rule", "token") if name in request.query_params}
    return {
        **asked,
        "clients": list(map(str, clients or ())),
        "throttled": request.query_params.get("throttled") == "true",
    }


def _network(request: Request) -> Network | None:
    text = request.query_params.get("client")
    try:
        return None if text is None else ip_network(text)
    except ValueError as error:
        line = f"client = {text!r}: accepted: an address, or a network without host bits"
        raise Refused(HTTPStatus.BAD_REQUEST, line) from error


def _common(blocks: Iterable[Network], network: Network) -> list[Network]:
    """What ``blocks`` have in common with ``network``: of two networks that overlap, one is in the other."""
    both = [each for each in blocks if each.version == network.version and each.overlaps(network)]
    return [max(each, network, key=lambda one: one.prefixlen) for each in both]


def _is_of(client: str, network: Network) -> bool:
    address = as_address(client)
    return address is not None and address in network
