"""The web server's connections: how many there are at a time, and how long they may say nothing."""

import asyncio
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from ssl import SSLContext
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from console.access import counted_as

SILENCE = 10
"""Seconds in which a connection has to finish its TLS handshake, and then to send a request."""
_MOST, _OF_ONE = 512, 256
"""Connections at a time, in all and from one address."""


class _Connections:
    """All that are open, the oldest first, also while their handshake lasts."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Transport, _Protocol] = {}

    def add(self, transport: asyncio.Transport, protocol: "_Protocol") -> None:
        """Add one; where there are too many, one that has no request under way makes room."""
        address = _address(transport)
        same = [each for each in self._open if _address(each) == address]
        self._open[transport] = protocol
        crowd = same if len(same) >= _OF_ONE else [*self._open][:-1] if len(self._open) > _MOST else []
        if crowd:
            ended = next((each for each in crowd if self._open[each].is_awaited), transport)
            ended.abort()
            self.remove(ended)

    def remove(self, transport: asyncio.Transport) -> None:
        self._open.pop(transport, None)


def _address(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return counted_as(str(peer[0])) if peer else ""


class _Protocol(H11Protocol):
    """uvicorn's, for connections that send nothing, or a request that never ends."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_request()

    @property
    def is_awaited(self) -> bool:
        """Whether it has no request under way, or one that has not come whole."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _await_request(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(SILENCE, self._end)

    def _end(self) -> None:
        if self.is_awaited:
            self.transport.close()


class _Plain(_Protocol):
    """HTTP."""

    def __init__(self, there: _Connections, **given: Any) -> None:
        super().__init__(**given)
        self._there = there

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._there.add(transport, self)
        self._raw = transport
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._there.remove(self._raw)
        super().connection_lost(exc)


class _Tls(SSLProtocol):
    """TLS around HTTP. asyncio's own server would tell nobody of a connection before its handshake is done."""

    max_size = 16 << 10
    """Bytes of a buffer that each connection has from its first moment; a TLS record is no larger (RFC 8446)."""

    def __init__(self, there: _Connections, context: SSLContext, inner: _Protocol) -> None:
        super().__init__(
            inner.loop,
            inner,
            context,
            None,  # type: ignore[arg-type]
            server_side=True,
            ssl_handshake_timeout=SILENCE,
            ssl_shutdown_timeout=SILENCE,
        )
        self._there, self._inner = there, inner

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._there.add(transport, self._inner)
        self._raw = transport
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._there.remove(self._raw)
        super().connection_lost(exc)


def protocols(context: SSLContext | None) -> Callable[..., asyncio.BaseProtocol]:
    """What makes uvicorn's protocol of each connection: of HTTP, or of HTTPS with a ``context``."""
    there = _Connections()
    if context is None:
        return lambda **given: _Plain(there, **given)
    return lambda **given: _Tls(there, context, _Protocol(**given))
