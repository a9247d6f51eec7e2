"""What a check works with: connections to the converter, and origin servers that the converter can reach; runs it."""

import errno
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from . import message
from .message import Address, Garbled, Reply
from .origin import Origin
from .stream import PROTOCOL_MPTCP, Stream
from .verdict import Check, Outcome, Result, Skip, Unmet, require

TCP_FASTOPEN_NO_COOKIE = 34  # since Linux 4.15
STEPS = 6  # a check may take this many timeouts in all


@dataclass(frozen=True)
class Unreachable:
    """An address behind a router that answers with an ICMP hard error, and that error's code if it is known."""

    address: Address
    code: int | None


@dataclass(frozen=True)
class Settings:
    """What the user said. `timeout`, `quiet` and `pace` are seconds."""

    converter: tuple[str, int]
    family: socket.AddressFamily
    origins: tuple[Address, ...]
    mptcp: bool = False
    cookies: bool = False
    forbidden: Address | None = None
    unreachable: Unreachable | None = None
    sources: tuple[Address, ...] = ()
    timeout: float = 5.0
    quiet: float = 0.2  # for how long nothing must happen, where nothing must
    pace: float = 0.0


class Rig:
    """The means of one check. All that was opened is closed in the end."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.notes: list[str] = []
        self._deadline = time.monotonic() + STEPS * settings.timeout
        self._open = ExitStack()
        self._cookie: bytes | None = None

    def __enter__(self) -> "Rig":
        return self

    def __exit__(self, *_exception: object) -> None:
        self._open.close()

    def remaining(self) -> float:
        return max(min(self.settings.timeout, self._deadline - time.monotonic()), 0.001)

    def stream(self, connection: socket.socket) -> Stream:
        """Wraps a connection that ends with the check."""
        stream = Stream(connection, self.remaining, self.notes.append)
        self._open.callback(stream.reset)
        return stream

    # The origin's side

    def origin(self, address: Address | None = None, **manner: Any) -> Origin:
        """An origin server at that address, or at the first of them."""
        return self._open.enter_context(Origin(self, address or self.settings.origins[0], **manner))

    def address(self, version: int) -> Address:
        for address in self.settings.origins:
            if address.version == version:
                return address
        raise Skip(f"no --origin address of IPv{version}")

    # The client's side

    def request(self, *tlvs: bytes, **header: int) -> bytes:
        """A Convert message that the converter has no reason to refuse for want of a cookie."""
        return message.encode(*self.authorization(), *tlvs, **header)

    def authorization(self) -> list[bytes]:
        return [message.cookie(self.cookie())] if self.settings.cookies else []

    def cookie(self, source: Address | None = None) -> bytes:
        """The cookie that the converter computes for this client (section 6.2.7)."""
        if self._cookie is not None and source is None:
            return self._cookie
        upstream = self.upstream(source)
        upstream.ask(message.encode(message.connect(self.settings.origins[0], 9)))
        error = upstream.reply().error
        upstream.reset()
        if error is None or error.code != message.Code.MISSING_COOKIE:
            raise Unmet("error 3 (Missing cookie) to a Connect without a cookie", str(error or "no error"))
        if source is None:
            self._cookie = error.value[1:]
        return error.value[1:]

    def upstream(self, source: Address | None = None, syn_data: bytes = b"") -> Stream:
        """A connection to the converter; its SYN carries `syn_data`, without a Fast Open cookie (appendix A.1)."""
        time.sleep(self.settings.pace)
        protocol = PROTOCOL_MPTCP if self.settings.mptcp else socket.IPPROTO_TCP
        connection = socket.socket(self.settings.family, socket.SOCK_STREAM, protocol)
        if source is not None:
            connection.bind((str(source), 0))
        connection.settimeout(self.remaining())
        try:
            if syn_data:
                connection.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, 1)
                self.notes.append(f"> {syn_data.hex()} in the SYN")
                connection.sendto(syn_data, socket.MSG_FASTOPEN, self.settings.converter)
            else:
                connection.connect(self.settings.converter)
        except OSError as error:
            connection.close()
            if syn_data and error.errno in (errno.EOPNOTSUPP, errno.ENOPROTOOPT, errno.EPIPE):
                raise Skip(f"this machine sends no data in a SYN: {error}") from None
            raise Unmet("a connection to the converter", str(error)) from None
        return self.stream(connection)

    def ask(self, *tlvs: bytes, data: bytes = b"", **header: int) -> Stream:
        """A connection to the converter on which it was sent such a request, with `data` right behind."""
        upstream = self.upstream()
        upstream.ask(self.request(*tlvs, **header) + data)
        return upstream

    # Both

    def connected(self, data: bytes = b"", origin: Origin | None = None) -> tuple[Stream, Stream]:
        """A connection through the converter with `data` right behind the header: its client and server ends."""
        origin = origin or self.origin()
        upstream = self.ask(origin.connect(), data=data)
        accepted(upstream.reply())
        return upstream, origin.accept()


def accepted(reply: Reply) -> Reply:
    """The reply, if the converter confirms the connection."""
    require(reply.error is None, "a reply without an Error TLV", reply)
    return reply


def run(check: Check, settings: Settings) -> Result:
    """Runs one check, and closes all that it opened."""
    start = time.monotonic()
    with Rig(settings) as rig:
        result, expected, came = _judge(check, rig)
    seconds = round(time.monotonic() - start, 3)
    return Result(check.name, check.clause, check.level, check.asks, result, expected, came, seconds, rig.notes)


def _judge(check: Check, rig: Rig) -> tuple[Outcome, str, str]:
    try:
        return Outcome.PASS, "", check.run(rig, *check.given)
    except Skip as reason:
        return Outcome.SKIP, "", str(reason)
    except Unmet as unmet:
        return Outcome.FAIL, unmet.expected, unmet.came
    except Garbled as garbled:
        return Outcome.FAIL, "a well-formed Convert message", str(garbled)
    except OSError as error:
        return Outcome.FAIL, "a working connection", str(error)
