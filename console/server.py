"""Serves the page: sockets, the web server and its bounds, the control socket."""

import asyncio
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from console import files, openapi
from console.access import SHORTEST_PASSWORD, Logins, hashed
from console.api import Api
from console.changes import Changes
from console.guard import Guard
from console.history import Recorder
from console.journal import Book
from console.looking import Looking
from console.settings import ConsoleSettings
from tributary.api.console import CONTROL, Entry
from tributary.daemons import notify
from tributary.daemons.control import Request
from tributary.daemons.control import Response as Answer
from tributary.daemons.logs import Log
from tributary.daemons.request_server import Server as ControlServer
from tributary.daemons.state_file import StateFile
from tributary.settings.errors import CommandError, Exit
from tributary.settings.hosts import joined

_SILENCE = 10.0
"""Seconds in which a connection has to send a request."""
_MOST_CONNECTIONS = 512
_GONE = 30_000
"""Milliseconds after which a peer that acknowledges nothing is gone (TCP_USER_TIMEOUT, tcp(7))."""
_END = 1
"""Seconds for what is under way when the service ends; streams would never end."""


class _Protocol(H11Protocol):
    """uvicorn's, for connections that send nothing, or a request that never ends."""

    _silence: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            others = (each for each in self.connections if isinstance(each, _Protocol) and each is not self)
            next((each for each in others if each.is_silent), self).transport.abort()
        self._await_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_request()

    @property
    def is_silent(self) -> bool:
        """Whether no request of it is under way."""
        return self.cycle is None or self.cycle.response_complete

    def _await_request(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        self._silence = self.loop.call_later(_SILENCE, self._end_silence)

    def _end_silence(self) -> None:
        if self.is_silent:
            self.transport.close()


class _Server(uvicorn.Server):
    """uvicorn's, which leaves signals to us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class Console:
    """All parts together. ``state`` is a folder for what outlives it."""

    def __init__(self, settings: ConsoleSettings, state: Path, log: Log) -> None:
        self._settings, self._log = settings, log
        self._recorder = Recorder(state / "history.sqlite")
        self._book = Book(state / "journal.sqlite")
        self._password = StateFile(state / "password.json")
        self._logins = Logins()
        self._pages: Sequence[str] = ()

    def close(self) -> None:
        """Write what is not written yet."""
        self._recorder.close()
        self._book.close()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; raises CommandError where it cannot."""
        with CONTROL.server() as control:
            looking = Looking(self._recorder, partial(self._turn, control))
            changes = Changes(self._book, self._tell)
            reading = self._settings.reading
            api = Api(looking, self._recorder, changes, self._book, self._logins, self._password, reading)
            server = _Server(self._config(Guard(_application(api), self._settings.names)))
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, setattr, server, "should_exit", True)
            loop.add_reader(control.fileno(), self._serve_control, control)
            with _listeners(self._settings.addresses) as listeners:
                self._pages = self._addresses(listeners)
                looks = asyncio.create_task(looking.run())
                serving = asyncio.create_task(server.serve(listeners))
                await looking.latest()
                self._ready()
                await asyncio.wait((looks, serving), return_when=asyncio.FIRST_COMPLETED)
                server.should_exit = True
                looks.cancel()
                await serving
            notify.send(notify.STOPPING)
            with suppress(asyncio.CancelledError):
                await looks

    def _config(self, app: Guard) -> uvicorn.Config:
        files: dict[str, Any] = {}
        if self._settings.certificate is not None:
            files = {"ssl_certfile": self._settings.certificate, "ssl_keyfile": self._settings.key}
        config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_END,
            **files,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            where = f"{self._settings.certificate}, {self._settings.key}"
            raise CommandError(Exit.USAGE, f"{where}: accepted: a certificate and its key: {error}") from error
        return config

    def _ready(self) -> None:
        print("ready", flush=True)
        self._log.event("ready", pages=" ".join(self._pages))
        notify.send(notify.READY, notify.status(f"the page is at {' '.join(self._pages)}"))

    def _addresses(self, listeners: Sequence[socket.socket]) -> Sequence[str]:
        scheme = "http" if self._settings.certificate is None else "https"
        names = (each.getsockname() for each in listeners)
        return [f"{scheme}://{joined(host, port)}/" for host, port, *_ in names]

    def _turn(self, control: ControlServer) -> None:
        """After each look."""
        self._serve_control(control)
        notify.send(notify.WATCHDOG)

    def _tell(self, entry: Entry) -> None:
        before, after = entry.before or "none", entry.after or "none"
        self._log.event("changed", who=entry.who, subject=entry.subject, key=entry.key, before=before, after=after)

    def _serve_control(self, control: ControlServer) -> None:
        control.serve(lambda request, peer: CONTROL.respond(request, peer, self._answer))

    def _answer(self, asked: Request) -> Answer:
        match asked["command"]:
            case "login":
                token = self._logins.token(str(asked["name"])[:40], time.monotonic())
                return {"pages": [f"{page}#/login?token={token}" for page in self._pages]}
            case "password":
                return self._set_password(str(asked["password"]))
            case "logout":
                self._logins.logout_all()
                return {}
        raise CommandError(Exit.USAGE, f"the running console has no command {asked['command']!r}")

    def _set_password(self, password: str) -> Answer:
        if not password:
            self._password.remove()
        elif len(password) < SHORTEST_PASSWORD:
            raise CommandError(Exit.USAGE, f"password: accepted: {SHORTEST_PASSWORD} signs or more")
        else:
            self._password.replace(hashed(password))
        self._logins.logout_all()
        self._log.event("password set" if password else "password removed")
        return {}


def _application(api: Api) -> Starlette:
    pages = files.load()
    description = openapi.document(api.calls)

    async def page(request: HttpRequest) -> Response:
        return pages["index.html"].response(request)

    async def static(request: HttpRequest) -> Response:
        found = pages.get(request.path_params["name"])
        return found.response(request) if found else await missing(request, None)

    async def described(_request: HttpRequest) -> Response:
        return JSONResponse(description)

    async def missing(_request: HttpRequest, _error: object) -> Response:
        return JSONResponse({"error": "there is nothing here: the page is at /, the API at /api/v1/openapi.json"}, 404)

    async def other_method(_request: HttpRequest, _error: object) -> Response:
        return JSONResponse({"error": "accepted: the methods of /api/v1/openapi.json"}, 405)

    return Starlette(
        routes=[
            Route("/", page),
            Route("/static/{name:path}", static),
            Route("/api/v1/openapi.json", described),
            *api.routes(),
        ],
        exception_handlers={404: missing, 405: other_method},
    )


@contextmanager
def _listeners(addresses: Sequence[tuple[str, int]]) -> Iterator[list[socket.socket]]:
    """Those of the service manager (sd_listen_fds(3)), or own ones; raises CommandError, exit 75."""
    made = _inherited()
    try:
        for host, port in addresses if not made else ():
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            try:
                listener = socket.create_server((host, port), family=family, backlog=128)
            except OSError as error:
                raise CommandError(Exit.IN_USE, f"cannot listen on {joined(host, port)}: {error.strerror}") from error
            made.append(listener)
        for listener in made:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE)
        yield made
    finally:
        for each in made:
            each.close()


def _inherited() -> list[socket.socket]:
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    return [socket.socket(fileno=3 + number) for number in range(int(os.environ["LISTEN_FDS"]))]


def serve(settings: ConsoleSettings, state: Path, log: Log) -> None:
    """Serve until SIGTERM or SIGINT; raises CommandError where it cannot."""
    with closing(Console(settings, state, log)) as console:
        asyncio.run(console.run())
