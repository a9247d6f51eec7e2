"""What serves pages, the console's and that of a box's first start: uvicorn with bounds, guarded, with files."""

import socket
import ssl
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from console import files
from console.connections import SILENCE, protocols
from console.guard import Guard, Refuse
from console.requests import Refused

BACKLOG = 128
_GONE = 30_000
"""Milliseconds after which a peer that acknowledges nothing is gone (TCP_USER_TIMEOUT, tcp(7))."""
_END = 1
"""Seconds for what is under way when the service ends; streams would never end."""


class Server(uvicorn.Server):
    """uvicorn's, which leaves signals to us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server(app: ASGIApp, tls: ssl.SSLContext | None = None) -> Server:
    """One for ``app``, which ends when ``should_exit`` is set."""
    config = uvicorn.Config(
        app,
        http=protocols(tls),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_END,
        backlog=BACKLOG,
    )
    config.load()
    return Server(config)


def bound(listener: socket.socket) -> None:
    """Set how long its peers may say nothing."""
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE)
    # Who says nothing costs no descriptor (tcp(7)).
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, SILENCE)


def application(
    routes: Sequence[Route], refuse: Refuse, lines: Mapping[int, str], names: Collection[str] | None = None
) -> Guard:
    """``routes`` and the page's files, guarded. ``refuse`` answers what is refused, ``lines`` say why by status."""
    pages = files.load()

    async def static(request: Request) -> Response:
        found = pages.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return found.response(request)

    async def refused(_request: Request, error: Exception) -> Response:
        if isinstance(error, Refused):
            return refuse(error.status, str(error))
        assert isinstance(error, HTTPException)
        answer = refuse(HTTPStatus(error.status_code), lines[error.status_code])
        answer.headers.update(error.headers or {})  # `Allow`: RFC 9110 section 15.5.6
        return answer

    handlers = dict.fromkeys((Refused, *lines), refused)
    made = Starlette(routes=[*routes, Route("/static/{name:path}", static)], exception_handlers=handlers)
    return Guard(made, names, refuse)
