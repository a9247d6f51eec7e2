import select
import socket
import time

from tests.commands.conformance.mutants.mutant import ANY, behind_connect, lenient, mutant, refuse, simple
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

simple("TakesLengthZeroForOne", "tlv-of-length-zero", length_zero=lambda *_: None)
simple("LooksPastTheEnd", "tlv-past-the-end", "second-tlv-past-the-end", past_the_end=lambda *_: None)
lenient("LooksPastTheEndBehindConnect", "second-tlv-past-the-end", demand="past_the_end", where=behind_connect)
lenient("TakesTwoConnects", "duplicate-connect", demand="duplicate", where=lambda _, kind: kind == CONNECT)
lenient("TakesTwoInfos", "duplicate-info", demand="duplicate", where=lambda _, kind: kind == INFO, may_fail=AFTERWARDS)
simple("TakesShortConnects", "connect-without-address", "connect-too-short", short_connect=lambda *_: None)
simple("TakesLongInfos", "info-too-long", info=lambda _, request, __: setattr(request, "info", True))


class MendsOptions(Converter):
    """Takes an option whose length is wrong for one of a right length."""

    wrong = range(0)

    def bad_option(self, request: Request, size: int, left: int) -> int:
        return min(max(size, 2), left) if size in self.wrong else super().bad_option(request, size, left)


simple("TakesOptionsOfLengthZero", "option-of-length-zero", base=MendsOptions, wrong=range(1))
simple("TakesOptionsOfLengthOne", "option-of-length-one", base=MendsOptions, wrong=range(1, 2))
simple("TakesOptionsPastTheEnd", "option-past-the-end", base=MendsOptions, wrong=range(2, 256))


lenient("TakesTypeZero", "reserved-type-zero", demand="unknown", where=lambda _, kind: kind == 0, may_fail=AFTERWARDS)
lenient(
    "TakesPrivateTypes",
    "unknown-type",
    "unknown-type-behind-connect",
    "echo-of-the-longest-message",
    *ERRORS,
    demand="unknown",
    where=lambda _, kind: kind == 200,
)
lenient("TakesTLVsOfConverters", "tlv-of-a-converter", demand="unknown", where=lambda _, kind: kind in (20, 21, 30))
lenient(
    "TakesUnknownTypesBehindConnect",
    "unknown-type-behind-connect",
    "echo-of-the-longest-message",
    demand="unknown",
    where=behind_connect,
)
simple("EchoesNothing", *ECHOED, "echo-of-the-longest-message", echo=lambda *_: b"\0")
simple(
    "EchoesNoLongMessages",
    "echo-of-the-longest-message",
    echo=lambda self, request: Converter.echo(self, request) if len(request.raw) <= 1012 else b"\0",
)
simple("EchoesWithoutZeros", *ECHOED, echo=lambda _, request: b"\1" + request.raw[:1012])
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
    lenient(f"Reaches {_text}", _check, demand="is_invalid", where=lambda text, reached=_text: text == reached)

simple("ReachesUnspecified", "connect-to-unspecified", unspecified=lambda _: None)
simple("EndsProperlyOnLengthZero", "total-length-zero", no_length=lambda _: _drop())


def _drop() -> None:
    raise Dropped(reset=False)


lenient("TakesAnyMagic", "wrong-magic", demand="not_convert", where=lambda head: head[0] == 1)


@mutant("not-convert-at-all")
class WelcomesHTTP(Converter):
    def read(self, upstream: socket.socket) -> tuple[Request, bytes]:
        if upstream.recv(4, socket.MSG_PEEK) == b"GET ":
            upstream.sendall(self.message())
        return super().read(upstream)


for _version, _check in {0: "version-zero", 2: "version-two", 255: "version-255"}.items():
    lenient(
        f"TakesVersion {_version}",
        _check,
        demand="unsupported_version",
        where=lambda head, taken=_version: head[0] == taken,
        may_fail=AFTERWARDS if _version == 2 else frozenset(),
    )
simple("PadsVersionsTooFar", *VERSIONS, unsupported_version=lambda *_: refuse(0, b"\1" + bytes(8)))
simple("NamesNoVersion", *VERSIONS, unsupported_version=lambda *_: refuse(0))
simple("NamesWrongVersions", *VERSIONS, unsupported_version=lambda *_: refuse(0, b"\2\0\1"))


@mutant("truncated-message")
class KeepsTruncatedMessages(Converter):
    def cut_short(self, upstream: socket.socket, came: bytes) -> bytes:
        time.sleep(4)
        return super().cut_short(upstream, came)


simple("ResetsBehindErrors", *ERRORS, linger=lambda self, upstream: self.reset(upstream))
simple(
    "ClosesWithDataUnread",
    "error-before-fin-with-data",
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
