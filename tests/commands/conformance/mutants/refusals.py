import select
import socket
import time

from tests.commands.conformance.mutants.mutant import ANY, mutant, only, refuse, simple
from tests.commands.conformance.reading import CONNECT, INFO, Dropped, Request
from tests.commands.conformance.reference import Converter

ECHOED = frozenset({
    "tlv-of-length-zero", "tlv-past-the-end", "second-tlv-past-the-end", "duplicate-connect", "duplicate-info",
    "connect-without-address", "connect-too-short", "info-too-long", "option-of-length-zero", "option-of-length-one",
    "option-past-the-end", "reserved-type-zero", "unknown-type", "unknown-type-behind-connect",
    "connect-to-ipv4-loopback", "connect-to-high-ipv4-loopback", "connect-to-ipv4-multicast",
    "connect-to-high-ipv4-multicast", "connect-to-ipv4-broadcast", "connect-to-ipv6-loopback",
    "connect-to-ipv6-multicast", "connect-to-global-ipv6-multicast",
})  # fmt: skip
ERRORS = frozenset({"error-before-fin", "error-before-fin-with-data"})
AFTERWARDS = frozenset({"serves-after-refusals"})
VERSIONS = frozenset({"version-zero", "version-two", "version-255"})

simple("TakesLengthZeroForOne", only("tlv-of-length-zero"), length_zero=lambda *_: None)
simple("LooksPastTheEnd", only("tlv-past-the-end", "second-tlv-past-the-end"), past_the_end=lambda *_: None)


@mutant("second-tlv-past-the-end")
class LooksPastTheEndBehindConnect(Converter):
    def past_the_end(self, request: Request) -> None:
        if request.address is None:
            super().past_the_end(request)


class TakesDuplicates(Converter):
    """Takes a TLV of one type any number of times."""

    repeated = 0

    def duplicate(self, request: Request, kind: int) -> None:
        if kind != self.repeated:
            super().duplicate(request, kind)


simple("TakesTwoConnects", only("duplicate-connect"), base=TakesDuplicates, repeated=CONNECT)
simple("TakesTwoInfos", only("duplicate-info"), base=TakesDuplicates, repeated=INFO, may_fail=AFTERWARDS)


simple("TakesShortConnects", only("connect-without-address", "connect-too-short"), short_connect=lambda *_: None)
simple("TakesLongInfos", only("info-too-long"), info=lambda _, request, __: setattr(request, "info", True))


class MendsOptions(Converter):
    """Takes an option whose length is wrong for one of a right length."""

    wrong = range(0)

    def bad_option(self, request: Request, size: int, left: int) -> int:
        return min(max(size, 2), left) if size in self.wrong else super().bad_option(request, size, left)


simple("TakesOptionsOfLengthZero", only("option-of-length-zero"), base=MendsOptions, wrong=range(1))
simple("TakesOptionsOfLengthOne", only("option-of-length-one"), base=MendsOptions, wrong=range(1, 2))
simple("TakesOptionsPastTheEnd", only("option-past-the-end"), base=MendsOptions, wrong=range(2, 256))


class TakesUnknownTypes(Converter):
    """Ignores TLVs of some types that it does not know."""

    taken: tuple[int, ...] = ()

    def unknown(self, request: Request, kind: int) -> None:
        if kind not in self.taken:
            super().unknown(request, kind)


simple("TakesTypeZero", only("reserved-type-zero"), base=TakesUnknownTypes, taken=(0,), may_fail=AFTERWARDS)
simple(
    "TakesPrivateTypes",
    only("unknown-type", "unknown-type-behind-connect", "echo-of-the-longest-message", *ERRORS),
    base=TakesUnknownTypes,
    taken=(200,),
)
simple("TakesTLVsOfConverters", only("tlv-of-a-converter"), base=TakesUnknownTypes, taken=(20, 21, 30))


@mutant("unknown-type-behind-connect", "echo-of-the-longest-message")
class TakesUnknownTypesBehindConnect(Converter):
    def unknown(self, request: Request, kind: int) -> None:
        if request.address is None:
            super().unknown(request, kind)


simple("EchoesNothing", ECHOED | {"echo-of-the-longest-message"}, echo=lambda *_: b"\0")
simple(
    "EchoesNoLongMessages",
    only("echo-of-the-longest-message"),
    echo=lambda self, request: Converter.echo(self, request) if len(request.raw) <= 1012 else b"\0",
)
simple("EchoesWithoutZeros", ECHOED, echo=lambda _, request: b"\1" + request.raw[:1012])


class Reaches(Converter):
    """Takes an address that is invalid."""

    reached = ""

    def is_invalid(self, text: str) -> bool:
        return text != self.reached and super().is_invalid(text)


for _text, _check in {
    "127.0.0.1": "connect-to-ipv4-loopback",
    "127.255.255.254": "connect-to-high-ipv4-loopback",
    "224.0.0.1": "connect-to-ipv4-multicast",
    "239.255.255.250": "connect-to-high-ipv4-multicast",
    "255.255.255.255": "connect-to-ipv4-broadcast",
    "::1": "connect-to-ipv6-loopback",
    "ff02::1": "connect-to-ipv6-multicast",
    "ff0e::1": "connect-to-global-ipv6-multicast",
}.items():
    simple(f"Reaches {_text}", only(_check), base=Reaches, reached=_text)

simple("ReachesUnspecified", only("connect-to-unspecified"), unspecified=lambda _: None)
simple("EndsProperlyOnLengthZero", only("total-length-zero"), no_length=lambda _: _drop())


def _drop() -> None:
    raise Dropped(reset=False)


@mutant("wrong-magic")
class TakesAnyMagic(Converter):
    def not_convert(self, head: bytes) -> None:
        if head[0] != 1:
            super().not_convert(head)


@mutant("not-convert-at-all")
class WelcomesHTTP(Converter):
    def read(self, upstream: socket.socket) -> tuple[Request, bytes]:
        if upstream.recv(4, socket.MSG_PEEK) == b"GET ":
            upstream.sendall(self.message())
        return super().read(upstream)


for _version, _check in {0: "version-zero", 2: "version-two", 255: "version-255"}.items():
    simple(
        f"TakesVersion {_version}",
        only(_check),
        may_fail=AFTERWARDS if _version == 2 else frozenset(),
        unsupported_version=lambda self, head, taken=_version: (
            None if head[0] == taken else Converter.unsupported_version(self, head)
        ),
    )
simple("PadsVersionsTooFar", VERSIONS, unsupported_version=lambda *_: refuse(0, b"\1" + bytes(8)))
simple("NamesNoVersion", VERSIONS, unsupported_version=lambda *_: refuse(0))
simple("NamesWrongVersions", VERSIONS, unsupported_version=lambda *_: refuse(0, b"\2\0\1"))


@mutant("truncated-message")
class KeepsTruncatedMessages(Converter):
    def cut_short(self, upstream: socket.socket, came: bytes) -> bytes:
        time.sleep(4)
        return super().cut_short(upstream, came)


simple("ResetsBehindErrors", ERRORS, linger=lambda self, upstream: self.reset(upstream))
simple(
    "ClosesWithDataUnread",
    only("error-before-fin-with-data"),
    linger=lambda _, upstream: select.select([upstream], [], [], 0.02),
)


@mutant("serves-after-refusals", may_fail=ANY)
class ResetsMakeItDeaf(Converter):
    deaf = 0

    def take(self, upstream: socket.socket, size: int, came: bytes = b"") -> bytes:
        try:
            return super().take(upstream, size, came)
        except ConnectionResetError:
            self.deaf = 4
            raise

    def serve(self, upstream: socket.socket) -> None:
        self.deaf = max(self.deaf - 1, 0)
        if not self.deaf:
            super().serve(upstream)
