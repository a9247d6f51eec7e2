import socket
from collections.abc import Callable
from typing import Any

from tests.commands.conformance.mutants.mutant import ANY, mutant, only, refuse, simple
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


simple(
    "HeaderUnassignedNotZero",
    only("extended-header-well-formed"),
    returned=lambda *words: b"\1\0" + Converter.returned(*words)[2:],
)


def _changes_header(name: str, fails: frozenset[str], change: Callable[[bytes], bytes], **others: Any) -> None:
    simple(name, fails, **others, syn_ack=lambda *words: change(Converter.syn_ack(*words)))


_changes_header(
    "HeaderWithoutMSS", only("extended-header-well-formed", "extended-header-is-copy"), lambda made: made[4:]
)
_changes_header("MadeUpMSS", only("extended-header-is-copy"), lambda made: b"\x02\x04\x05\xb4" + made[4:])
_changes_header(
    "HeaderOfMSSAlone",
    only("extended-header-is-copy", "extended-header-of-multipath-server"),
    lambda made: made[:4],
    may_fail=ANY,
)
_changes_header(
    "ClaimsThatServersSpeakMultipath",
    only("extended-header-of-tcp-server"),
    lambda made: made if b"\x1e\x0c" in made else made + b"\x1e\x0c\x01" + bytes(9),
)
_changes_header(
    "HidesThatServersSpeakMultipath",
    only("extended-header-of-multipath-server"),
    lambda made: made.partition(b"\x1e\x0c\x01")[0],
    whole=True,
)


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
simple("RefusesSACKPermitted", only("sack-permitted-is-requested") | REFUSING, base=RefusesAnnounced, refused_kind=4)
simple("RefusesTimestamps", only("timestamp-is-requested") | REFUSING, base=RefusesAnnounced, refused_kind=8)
simple(
    "AsksServersForNoMultipath",
    only("multipath-is-requested", "options-together", "extended-header-of-multipath-server"),
    whole=True,
    multipath=lambda *_: False,
)


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
simple("TakesTCPAO", only("tcp-ao-is-refused", "unsupported-options-are-listed"), ignored=(2, 3, 5, 29))
simple(
    "KeepsFastOpenCookies",
    only("fast-open-cookie-is-relayed"),
    may_fail=only("fast-open-cookie-is-copied"),
    whole=True,
    cached_cookie=lambda *_: b"",
)
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


@mutant("fast-open-cookie-is-copied", whole=True)
class SendsNoFastOpenCookies(Converter):
    def prepare(self, downstream: socket.socket, request: Request) -> None:
        if request.asks_for(34) == b"":
            super().prepare(downstream, request)

    def finish_fast_open(self, downstream: socket.socket) -> None:
        pass


# No socket option takes these out of a SYN: here the kernel is the mutant.
for _name, _check, _sysctl in (
    ("StackWithoutSACK", "sack-permitted-is-requested", "net.ipv4.tcp_sack=0"),
    ("StackWithoutTimestamps", "timestamp-is-requested", "net.ipv4.tcp_timestamps=0"),
):
    simple(_name, only(_check, "options-together"), whole=True, sysctls=(_sysctl,))
