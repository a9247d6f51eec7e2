"""Which requests are answered at all, and what every answer says. Around the whole application (ASGI)."""

from collections.abc import Callable, Collection
from http import HTTPStatus
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.requests import failed
from tributary.settings.hosts import joined

Refuse = Callable[[HTTPStatus, str], Response]

LARGEST_HEAD = 16 << 10
"""Bytes of a request's headers."""

_POLICY = "; ".join(
    (
        "default-src 'self'",
        "object-src 'none'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def refusal(scope: Scope, names: Collection[str] | None) -> tuple[HTTPStatus, str] | None:
    """Why this request is not answered; None if it is.

    ``names`` are NAME or NAME:PORT besides the address itself; None: there are none, nor a file that has some.
    """
    if sum(len(name) + len(value) for name, value in scope["headers"]) > LARGEST_HEAD:
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"headers: accepted: {LARGEST_HEAD} bytes"
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    accepted = _hosts(scope, names or ())
    # A name that somebody has led to this address (DNS rebinding) is not ours.
    if len(hosts) != 1 or hosts[0].lower() not in accepted:
        more = "" if names is None else " (names: console.toml)"
        return HTTPStatus.MISDIRECTED_REQUEST, f"Host: accepted: {', '.join(sorted(accepted))}{more}"
    # Browsers say with each change which site it comes from.
    own = f"{scope['scheme']}://{hosts[0]}"
    if scope["method"] == "POST" and headers.getlist("origin") != [own]:
        return HTTPStatus.FORBIDDEN, f"Origin: accepted: {own}"
    return None


def _hosts(scope: Scope, names: Collection[str]) -> set[str]:
    address, port = scope["server"]
    own = {address, "localhost"} if ip_address(address.partition("%")[0]).is_loopback else {address}
    usual = 443 if scope["scheme"] == "https" else 80
    hosts = {joined(host, port) for host in own} | {name if ":" in name else f"{name}:{port}" for name in names}
    return hosts | {host.removesuffix(f":{usual}") for host in hosts if port == usual}


class Guard:
    """Refuses what ``refusal`` does, as ``refuse`` says it, and adds headers that an answer does not have itself."""

    def __init__(self, app: ASGIApp, names: Collection[str] | None, refuse: Refuse = failed) -> None:
        self._app, self._names, self._refuse = app, names, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = refusal(scope, self._names)
        app = self._app if refused is None else self._refuse(*refused)
        await app(scope, receive, send_with_headers)
