import select
import socket

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
