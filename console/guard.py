"""Which requests are answered at all, and what every answer says. Around the whole application (ASGI)."""

from collections.abc import Collection
from http import HTTPStatus
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tributary.settings.hosts import joined

POLICY = "; ".join(
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
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def refusal(scope: Scope, names: Collection[str]) -> tuple[HTTPStatus, str] | None:
    """Why this request is not answered; None if it is. ``names`` are NAME or NAME:PORT besides the address itself."""
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    accepted = _hosts(scope, names)
    # A name that somebody has led to this address (DNS rebinding) is not ours.
    if len(hosts) != 1 or hosts[0].lower() not in accepted:
        return HTTPStatus.MISDIRECTED_REQUEST, f"Host: accepted: {', '.join(sorted(accepted))} (names: console.toml)"
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
    """Refuses what ``refusal`` does, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = refusal(scope, self._names)
        app = self._app if refused is None else JSONResponse({"error": refused[1]}, refused[0])
        await app(scope, receive, send_with_headers)
