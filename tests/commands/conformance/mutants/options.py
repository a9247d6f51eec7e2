"""Defects: tCP options."""

import socket

from tests.commands.conformance.mutants.mutant import ANY, MUTANTS, Mutant, mutant, only, refuse, simple
from tests.commands.conformance.reading import Refused, Request
from tests.commands.conformance.reference import Converter

EXTENDED = frozenset({
    "extended-header-present", "extended-header-well-formed", "extended-header-is-copy",
    "extended-header-of-tcp-server", "extended-header-of-multipath-server",
})  # fmt: skip
REFUSED_OPTIONS = frozenset({"unsupported-option", "unsupported-options-are-listed", "tcp-ao-is-refused"})


@mutant(*EXTENDED, may_fail=only("fast-open-cookie-is-relayed", "fast-open-cookie-is-copied"))
class ReturnsNoHeader(Converter):
    def reply(self, request: Request, downstream: socket.socket | None) -> bytes:
        request.options = None
        return super().reply(request, downstream)


@mutant("extended-header-well-formed")
class HeaderUnassignedNotZero(Converter):
    def returned(self, request: Request, downstream: socket.socket) -> bytes:
        return b"\1\0" + super().returned(request, downstream)[2:]


@mutant("extended-header-well-formed", "extended-header-is-copy")
class HeaderWithoutMSS(Converter):
    def syn_ack(self, request: Request, downstream: socket.socket) -> bytes:
        return super().syn_ack(request, downstream)[4:]


@mutant("extended-header-is-copy")
class MadeUpMSS(Converter):
    def syn_ack(self, request: Request, downstream: socket.socket) -> bytes:
        return b"\x02\x04\x05\xb4" + super().syn_ack(request, downstream)[4:]


@mutant("extended-header-is-copy", "extended-header-of-multipath-server", may_fail=ANY)
class HeaderOfMSSAlone(Converter):
    def syn_ack(self, request: Request, downstream: socket.socket) -> bytes:
        return super().syn_ack(request, downstream)[:4]


@mutant("extended-header-of-tcp-server")
class ClaimsThatServersSpeakMultipath(Converter):
    def syn_ack(self, request: Request, downstream: socket.socket) -> bytes:
        made = super().syn_ack(request, downstream)
        return made if b"\x1e\x0c" in made else made + b"\x1e\x0c\x01" + bytes(9)


@mutant("extended-header-of-multipath-server", whole=True)
class HidesThatServersSpeakMultipath(Converter):
    def syn_ack(self, request: Request, downstream: socket.socket) -> bytes:
        made = super().syn_ack(request, downstream)
        place = made.find(b"\x1e\x0c\x01")
        return made if place < 0 else made[:place]


class RefusesAnnounced(Converter):
    """Refuses an option that it announces."""

    refused_kind = 0

    def check_options(self, request: Request) -> None:
        if request.asks_for(self.refused_kind) is not None:
            raise Refused(33, bytes([self.refused_kind]))
        super().check_options(request)


REFUSING = frozenset({*EXTENDED, "options-together", "unsupported-options-are-listed"}) - {
    "extended-header-of-multipath-server"
}


@mutant("sack-permitted-is-requested", *REFUSING)
class RefusesSACKPermitted(RefusesAnnounced):
    refused_kind = 4


@mutant("timestamp-is-requested", *REFUSING)
class RefusesTimestamps(RefusesAnnounced):
    refused_kind = 8


@mutant("multipath-is-requested", "options-together", "extended-header-of-multipath-server", whole=True)
class AsksServersForNoMultipath(Converter):
    def multipath(self, request: Request) -> bool:  # noqa: ARG002
        return False


@mutant("end-of-options-is-ignored")
class RefusesPaddingAlone(Converter):
    def options(self, request: Request, rest: bytes) -> list[tuple[int, bytes]]:
        if not any(rest):
            raise self.malformed(request)
        return super().options(request, rest)


@mutant("no-operation-is-ignored")
class RefusesNoOperation(Converter):
    def single(self, request: Request, rest: bytes) -> bytes:
        if rest[0] == 1:
            raise self.malformed(request)
        return super().single(request, rest)


@mutant("maximum-segment-size-is-ignored")
class UsesClientsMSS(Converter):
    def prepare(self, downstream: socket.socket, request: Request) -> None:
        super().prepare(downstream, request)
        value = request.asks_for(2)
        if value and value != b"\x05\xb4":
            downstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, int.from_bytes(value))


@mutant("window-scale-is-ignored")
class UsesClientsWindowScale(Converter):
    def prepare(self, downstream: socket.socket, request: Request) -> None:
        super().prepare(downstream, request)
        if request.asks_for(3):
            downstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, 100_000)


simple("RefusesSACK", only("sack-is-ignored"), ignored=(2, 3))
simple("NamesNoUnsupportedKind", REFUSED_OPTIONS, unsupported_options=lambda _, kinds: refuse(33, bytes(len(kinds))))
simple(
    "NamesOneUnsupportedKind",
    only("unsupported-options-are-listed"),
    unsupported_options=lambda _, kinds: refuse(33, bytes(kinds[:1])),
)
simple(
    "PadsUnsupportedKindsTooFar",
    REFUSED_OPTIONS,
    unsupported_options=lambda _, kinds: refuse(33, bytes(kinds) + bytes(8)),
)


@mutant("unsupported-option", "unsupported-options-are-listed")
class TakesUnknownOptions(Converter):
    def unsupported_options(self, kinds: list[int]) -> None:
        if 29 in kinds:
            raise Refused(33, b"\x1d")


@mutant("tcp-ao-is-refused", "unsupported-options-are-listed")
class TakesTCPAO(Converter):
    ignored = (2, 3, 5, 29)


@mutant("fast-open-cookie-is-relayed", may_fail=only("fast-open-cookie-is-copied"), whole=True)
class KeepsFastOpenCookies(Converter):
    def cached_cookie(self, server: str) -> bytes:  # noqa: ARG002
        return b""


@mutant("fast-open-cookie-is-copied", whole=True)
class SendsNoFastOpenCookies(Converter):
    def prepare(self, downstream: socket.socket, request: Request) -> None:
        if request.asks_for(34) == b"":
            super().prepare(downstream, request)

    def finish_fast_open(self, downstream: socket.socket) -> None:
        pass


# No socket option takes these out of a SYN: here the kernel is the mutant.
MUTANTS.append(
    Mutant(
        "StackWithoutSACK",
        Converter,
        only("sack-permitted-is-requested", "options-together"),
        whole=True,
        sysctls=("net.ipv4.tcp_sack=0",),
    )
)
MUTANTS.append(
    Mutant(
        "StackWithoutTimestamps",
        Converter,
        only("timestamp-is-requested", "options-together"),
        whole=True,
        sysctls=("net.ipv4.tcp_timestamps=0",),
    )
)
