"""How requests are answered: what it says that it can do, who must show a cookie, which destinations are reached."""

import socket
from collections.abc import Callable
from typing import Any

from tests.commands.conformance.mutants.mutant import ANY, behind_connect, lenient, mutant, refuse, simple, strict
from tests.commands.conformance.reading import Refused, Request
from tests.commands.conformance.reference import Converter

INFOS = (
    "info-is-answered", "supported-unassigned-is-zero", "supported-padding", "supported-leaves-out",
    "supported-has-multipath", "info-and-connect", "connect-and-info",
)  # fmt: skip


@mutant(*INFOS, may_fail=ANY)
class IgnoresInfo(Converter):
    def info(self, request: Request, value: bytes) -> None:
        super().info(request, value)
        request.info = False


def _changes_list(name: str, fails: str, change: Callable[..., bytes], **others: Any) -> None:
    simple(name, fails, **others, supported=lambda self: change(Converter.supported(self)))


_changes_list("UnassignedNotZero", "supported-unassigned-is-zero", lambda value: b"\0\1" + value[2:])
_changes_list("PadsListTooFar", "supported-padding", lambda value: value + bytes(8))
for _option, _kind in {
    "NoOperation": b"\1",
    "MSS": b"\2",
    "WindowScale": b"\3",
    "SACK": b"\5",
    "TCPAO": b"\x1d",
}.items():
    _changes_list(f"Announces{_option}", "supported-leaves-out", lambda value, kind=_kind: value + kind)
_changes_list(
    "HidesMultipath",
    "supported-has-multipath",
    lambda value: value.replace(b"\x1e", b""),
    may_fail=ANY,
    whole=True,
)
strict("RefusesConnectBehindInfo", "info-and-connect", part="connect", where=lambda request, _: request.info)
strict("RefusesInfoBehindConnect", "connect-and-info", part="info", where=behind_connect)

simple(
    "CookieWithoutZero",
    "missing-cookie",
    missing_cookie=lambda self, client: Refused(3, b"\1" + self.cookie_for(client)),
)


@mutant("valid-cookie", may_fail=ANY)
class CookiesForTwoUses(Converter):
    def is_valid(self, cookie: bytes, client: str) -> bool:
        self.__dict__["uses"] = self.__dict__.get("uses", 0) + 1
        return super().is_valid(cookie, client) and self.__dict__["uses"] <= 2

    def missing_cookie(self, client: str) -> Refused:
        self.__dict__["uses"] = 0
        return super().missing_cookie(client)


lenient("WantsCookieFirst", "cookie-behind-connect", demand="cookie", where=behind_connect)
simple("AnyCookieDoes", "wrong-cookie", "cookie-of-another-address", is_valid=lambda *_: True)
simple(
    "LooksAtHalfTheCookie",
    "wrong-cookie",
    is_valid=lambda self, cookie, client: cookie[:8] == self.cookie_for(client)[:8],
)
simple("OtherErrorForWrongCookie", "wrong-cookie", "cookie-of-another-address", wrong_cookie=lambda _: Refused(1))
simple("OneCookieForAll", "cookie-of-another-address", cookie_for=lambda _, __: b"the same for all")


@mutant("connection-reset-extended")
class OtherErrorForExtendedConnect(Converter):
    def dial(self, request: Request, data: bytes) -> socket.socket:
        try:
            return super().dial(request, data)
        except Refused as refused:
            raise refused if request.options is None else Refused(65) from None


@mutant("refused-port-is-tried-again")
class RemembersRefusals(Converter):
    def dial(self, request: Request, data: bytes) -> socket.socket:
        known = self.__dict__.setdefault("known", set())
        if request.port in known:
            raise self.reset_by_server()
        try:
            return super().dial(request, data)
        except Refused:
            known.add(request.port)
            raise


simple(
    "Error96WithValue",
    "connection-reset",
    "connection-reset-extended",
    reset_by_server=lambda _: Refused(96, b"\1"),
)
simple("TakesICMPForReset", "destination-unreachable", whole=True, icmp_code=lambda *_: None)
simple("Error97WithoutCode", "destination-unreachable", whole=True, unreachable=lambda *_: Refused(97))
simple("OtherErrorForForbidden", "forbidden-destination", forbid=lambda _: refuse(65))
simple("Error32WithValue", "forbidden-destination", forbid=lambda _: refuse(32, b"\x20"))
