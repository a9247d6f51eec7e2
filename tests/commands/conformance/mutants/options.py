import socket
from collections.abc import Callable
from typing import Any

from tests.commands.conformance.mutants.mutant import ANY, mutant, refuse, simple, strict
from tests.commands.conformance.reading import Refused, Request
from tests.commands.conformance.reference import Converter

EXTENDED = frozenset({
    "extended-header-present", "extended-header-well-formed", "extended-header-is-copy",
    "extended-header-of-tcp-server", "extended-header-of-multipath-server",
})  # fmt: skip
REFUSED_OPTIONS = frozenset({"unsupported-option", "unsupported-options-are-listed", "tcp-ao-is-refused"})


@mutant(*EXTENDED, may_fail=frozenset({"fast-open-cookie-is-relayed", "fast-open-cookie-is-copied"}))
class ReturnsNoHeader(Converter):
    def reply(self, request: Request, downstream: socket.socket | None) -> bytes:
        request.options = None
        return super().reply(request, downstream)


simple(
    "HeaderUnassignedNotZero",
    "extended-header-well-formed",
    returned=lambda *words: b"\1\0" + Converter.returned(*words)[2:],
)


def _changes_header(name: str, *fails: str, change: Callable[[bytes], bytes], **others: Any) -> None:
    simple(name, *fails, **others, syn_ack=lambda *words: change(Converter.syn_ack(*words)))


_changes_header(
    "HeaderWithoutMSS", "extended-header-well-formed", "extended-header-is-copy", change=lambda made: made[4:]
)
_changes_header("MadeUpMSS", "extended-header-is-copy", change=lambda made: b"\x02\x04\x05\xb4" + made[4:])
_changes_header(
    "HeaderOfMSSAlone",
    "extended-header-is-copy",
    "extended-header-of-multipath-server",
    change=lambda made: made[:4],
    may_fail=ANY,
)
_changes_header(
    "ClaimsThatServersSpeakMultipath",
    "extended-header-of-tcp-server",
    change=lambda made: made if b"\x1e\x0c" in made else made + b"\x1e\x0c\x01" + bytes(9),
)
_changes_header(
    "HidesThatServersSpeakMultipath",
    "extended-header-of-multipath-server",
    change=lambda made: made.partition(b"\x1e\x0c\x01")[0],
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
simple("RefusesSACKPermitted", "sack-permitted-is-requested", *REFUSING, base=RefusesAnnounced, refused_kind=4)
simple("RefusesTimestamps", "timestamp-is-requested", *REFUSING, base=RefusesAnnounced, refused_kind=8)
simple(
    "AsksServersForNoMultipath",
    "multipath-is-requested",
    "options-together",
    "extended-header-of-multipath-server",
    whole=True,
    multipath=lambda *_: False,
)
strict("RefusesPaddingAlone", "end-of-options-is-ignored", part="options", where=lambda _, rest: not any(rest))
strict("RefusesNoOperation", "no-operation-is-ignored", part="single", where=lambda _, rest: rest[0] == 1)


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


simple("RefusesSACK", "sack-is-ignored", ignored=(2, 3))
simple("TakesTCPAO", "tcp-ao-is-refused", "unsupported-options-are-listed", ignored=(2, 3, 5, 29))
simple(
    "KeepsFastOpenCookies",
    "fast-open-cookie-is-relayed",
    may_fail=frozenset({"fast-open-cookie-is-copied"}),
    whole=True,
    cached_cookie=lambda *_: b"",
)
simple("NamesNoUnsupportedKind", *REFUSED_OPTIONS, unsupported_options=lambda _, kinds: refuse(33, bytes(len(kinds))))
simple(
    "NamesOneUnsupportedKind",
    "unsupported-options-are-listed",
    unsupported_options=lambda _, kinds: refuse(33, bytes(kinds[:1])),
)
simple(
    "PadsUnsupportedKindsTooFar",
    *REFUSED_OPTIONS,
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
    simple(_name, _check, "options-together", whole=True, sysctls=(_sysctl,))
