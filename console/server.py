"""Serves the page: sockets, the web server and its bounds, the control socket."""

import asyncio
import logging
import os
import signal
import socket
import ssl
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from console import certificate, files, openapi, web
from console.api import Api
from console.changes import Changes
from console.door import Door
from console.guard import Guard
from console.history import Recorder
from console.journal import Book, Change
from console.looking import Looking
from console.requests import failed
from console.settings import ConsoleSettings
from tributary.api.places import CONSOLE
from tributary.daemons import notify
from tributary.daemons.control import Request
from tributary.daemons.control import Response as Answer
from tributary.daemons.listener import listener
from tributary.daemons.logs import Level, Log
from tributary.daemons.request_server import Server as ControlServer
from tributary.settings.errors import CommandError, Exit
from tributary.settings.hosts import host_and_port, joined

_THREADS, _TURN = 4, 5.0
_LINES = {
    404: "there is nothing here: the page is at /, the API at /api/v1/openapi.json",
    405: "accepted: the methods of /api/v1/openapi.json",
}


class Console:
    """All parts together. ``state`` is a folder for what outlives it."""

    def __init__(self, settings: ConsoleSettings, state: Path, log: Log) -> None:
        self._settings, self._state, self._log = settings, state, log
        self._recorder = Recorder(state / "history.sqlite")
        self._book = Book(state / "journal.sqlite")
        self._door = Door(state, settings, self._complain)
        self._pages: Sequence[str] = ()
        self._started = time.monotonic()

    def close(self) -> None:
        """Write what is not written yet."""
        self._recorder.close()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; raises CommandError where it cannot."""
        with CONSOLE.server() as control:
            looking = Looking(self._recorder, self._complain)
            changes = Changes(self._book, self._tell)
            api = Api(looking, self._recorder, changes, self._book, self._door, self._complain)
            server = web.server(_application(api, self._settings.names), self._tls())
            loop = asyncio.get_running_loop()
            loop.set_default_executor(ThreadPoolExecutor(_THREADS, "answers"))
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.add_signal_handler(number, setattr, server, "should_exit", True)
            loop.add_reader(control.fileno(), self._serve_control, control, api)
            with _listeners(self._settings.addresses) as listeners:
                self._pages = self._addresses(listeners)
                looks = asyncio.create_task(looking.run())
                serving = asyncio.create_task(server.serve(listeners))
                turns = asyncio.create_task(self._turns(control, api))
                first = asyncio.create_task(looking.latest())
                await asyncio.wait((first, looks, serving), return_when=asyncio.FIRST_COMPLETED)
                if first.done():
                    self._ready()
                await asyncio.wait((looks, serving), return_when=asyncio.FIRST_COMPLETED)
                server.should_exit = True
                for task in (first, turns, looks):
                    task.cancel()
                await serving
            notify.send(notify.STOPPING)
            with suppress(asyncio.CancelledError):
                await looks

    def _tls(self) -> ssl.SSLContext | None:
        """Its context, if there is a certificate; raises CommandError, exit 64."""
        chain, key = self._settings.certificate, self._settings.key
        if self._settings.own_certificate:
            chain, key = certificate.own(self._state, self._settings.hosts)
            self._log.event("certificate", file=str(chain), sha256=certificate.fingerprint(chain))
        if chain is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # Without any password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(chain, key, "none")
        except (OSError, ssl.SSLError) as error:
            raise CommandError(Exit.USAGE, f"{chain}, {key}: accepted: a certificate and its key: {error}") from error
        return context

    def _ready(self) -> None:
        print("ready", flush=True)
        self._log.event("ready", pages=" ".join(self._pages))
        notify.send(notify.READY, notify.status(f"the page is at {' '.join(self._pages)}"))

    def _addresses(self, listeners: Sequence[socket.socket]) -> Sequence[str]:
        return [
            self._page(joined(_own(address), port)) for address, port, *_ in (each.getsockname() for each in listeners)
        ]

    def _page(self, host: str) -> str:
        return f"{self._settings.scheme}://{host}/"

    @property
    def _asked_for(self) -> Sequence[str]:
        """The names by which browsers ask; without any, the addresses."""
        port = self._settings.addresses[0][1]
        names = (joined(*host_and_port(name, port)) for name in self._settings.names)
        return list(map(self._page, names)) or self._pages

    async def _turns(self, control: ControlServer, api: Api) -> None:
        """What is due every few seconds: the service manager's watchdog, and deadlines of the control socket."""
        while True:
            self._serve_control(control, api)
            notify.send(notify.WATCHDOG)
            await asyncio.sleep(_TURN)

    def _tell(self, who: str, change: Change) -> None:
        before, after = change.before or "none", change.after or "none"
        self._log.event("changed", who=who, subject=change.subject, key=change.key, before=before, after=after)

    def _complain(self, what: str) -> None:
        self._log.event("fault", Level.WARNING, what=what[:1000])

    def _serve_control(self, control: ControlServer, api: Api) -> None:
        def answer(asked: Request) -> Answer:
            return self._status(api) if asked["command"] == "status" else self._answer(asked)

        control.serve(lambda request, peer: CONSOLE.respond(request, peer, answer))

    def _status(self, api: Api) -> Answer:
        uptime = round(time.monotonic() - self._started, 3)
        return {"pages": self._pages, "open": api.open_pages, "reading": self._settings.reading, "uptime_s": uptime}

    def _answer(self, asked: Request) -> Answer:
        match asked["command"]:
            case "login":
                token = self._door.new_login(str(asked["name"]))
                return {"pages": [f"{page}#/login?token={token}" for page in self._asked_for]}
            case "password":
                self._door.set_password(str(asked["password"]))
                self._log.event("password set" if asked["password"] else "password removed")
            case "logout":
                self._door.logout_all()
            case "token":
                token = self._door.new_token(str(asked["name"]))
                self._log.event("token made", name=asked["name"])
                return {"token": token}
            case "remove-token":
                self._door.remove_token(str(asked["name"]))
                self._log.event("token removed", name=asked["name"])
            case "tokens":
                return {"tokens": self._door.tokens}
        return {}


def _application(api: Api, names: Collection[str]) -> Guard:
    index = files.load()["index.html"]
    description: dict[str, object] = {}  # made when it is first asked for

    async def page(request: HttpRequest) -> Response:
        return index.response(request)

    async def described(_request: HttpRequest) -> Response:
        if not description:
            description.update(await asyncio.to_thread(openapi.document, api.calls))
        return JSONResponse(description)

    routes = [Route("/", page), Route("/api/v1/openapi.json", described), *api.routes()]
    return web.application(routes, failed, _LINES, names)


def _own(address: str) -> str:
    """One of this machine's, where all of them are meant."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)


@contextmanager
def _listeners(addresses: Sequence[tuple[str, int]]) -> Iterator[list[socket.socket]]:
    """Those of the service manager (sd_listen_fds(3)), or own ones; raises CommandError, exit 75."""
    made = _inherited()
    try:
        for host, port in addresses if not made else ():
            made.append(listener(host, port, web.BACKLOG))
        for each in made:
            web.bound(each)
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
    # What the web server and asyncio say of strangers' requests: by the log, which bounds it.
    logging.basicConfig(handlers=[_ToLog(log)], level=logging.WARNING, force=True)
    with closing(Console(settings, state, log)) as console:
        asyncio.run(console.run())


class _ToLog(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = f": {record.exc_info[1]!r}" if record.exc_info and record.exc_info[1] else ""
        self._log.event("web server", Level.WARNING, says=f"{record.getMessage()}{error}"[:300])
