"""What becomes of data, and how connections end."""

import select
import socket
from contextlib import suppress

from tests.commands.conformance.mutants.mutant import ANY, mutant, simple
from tests.commands.conformance.reading import Dropped, Request
from tests.commands.conformance.reference import Converter
from tests.commands.conformance.relaying import Flow

simple(
    "LosesDataBehindMessage",
    "data-with-message",
    "split-at-every-byte",
    "megabyte-behind-message",
    "data-like-a-message",
    may_fail=ANY,
    data_behind=lambda *_: b"",
)
simple("KeepsFourKilobytesBehindMessage", "megabyte-behind-message", data_behind=lambda _, data: data[:4096])


@mutant("split-at-every-byte", "one-byte-at-a-time")
class NeedsHeaderInOneSegment(Converter):
    def take(self, upstream: socket.socket, size: int, came: bytes = b"") -> bytes:
        first = super().take(upstream, 1, came)
        if len(first) < 4:
            raise Dropped(reset=False)
        return super().take(upstream, size, first)


@mutant("one-byte-at-a-time")
class GivesUpAfterTenSegments(Converter):
    def take(self, upstream: socket.socket, size: int, came: bytes = b"") -> bytes:
        for _ in range(10):
            if len(came) < size:
                came = super().take(upstream, len(came) + 1, came)
        if len(came) < size:
            raise Dropped(reset=False)
        return came


@mutant("server-speaks-first")
class RepliesBehindServersData(Converter):
    def reply(self, request: Request, downstream: socket.socket | None) -> bytes:
        made = super().reply(request, downstream)
        if downstream is not None and select.select([downstream], [], [], 0.03)[0]:
            return downstream.recv(100) + made
        return made


@mutant("data-like-a-message")
class EatsLaterMessages(Converter):
    def move(self, flow: Flow) -> None:
        super().move(flow)
        if flow.data[2:4] == b"\x22\x63":
            flow.data = b""


@mutant("transfer-both-ways")
class SpoilsOneByteFarIn(Converter):
    def move(self, flow: Flow) -> None:
        before = len(flow.data)
        super().move(flow)
        flow.__dict__["moved"] = moved = flow.__dict__.get("moved", 0) + (0 if before else len(flow.data))
        if moved > 2 << 20 and not flow.__dict__.get("spoiled") and flow.data:
            flow.__dict__["spoiled"] = True
            flow.data = bytes([flow.data[0] ^ 1]) + flow.data[1:]


class ClosesBothWays(Converter):
    """On the FIN of one side, closes towards both."""

    of_client = True

    def half_close(self, flow: Flow) -> None:
        super().half_close(flow)
        if (flow.source.getsockname()[1] == self.port) == self.of_client:
            with suppress(OSError):  # both FINs have passed: the kernel has closed it already
                flow.source.shutdown(socket.SHUT_RDWR)


simple("ClosesBothWaysOnClientsFIN", "half-close-by-client", "fin-with-message", base=ClosesBothWays)
simple("ClosesBothWaysOnServersFIN", "half-close-by-server", base=ClosesBothWays, of_client=False)


@mutant("fin-with-message")
class TakesEarlyFINForAbort(Converter):
    def open(self, upstream: socket.socket, request: Request, data: bytes) -> socket.socket | None:
        watch = select.poll()
        watch.register(upstream, select.POLLRDHUP)
        if watch.poll(10):
            raise Dropped(reset=True)
        return super().open(upstream, request, data)


simple("EndsClientProperlyOnReset", "reset-by-server", torn=lambda self, up, down: (up.close(), self.reset(down)))
simple("EndsServerProperlyOnReset", "reset-by-client", torn=lambda self, up, down: (down.close(), self.reset(up)))
