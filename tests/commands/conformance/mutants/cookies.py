from tests.commands.conformance.mutants.mutant import ANY, mutant, only, simple
from tests.commands.conformance.reading import Refused, Request
from tests.commands.conformance.reference import Converter

simple(
    "CookieWithoutZero",
    only("missing-cookie"),
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


@mutant("cookie-behind-connect")
class WantsCookieFirst(Converter):
    def cookie(self, request: Request, value: bytes) -> None:
        if request.address is None:
            super().cookie(request, value)


simple("AnyCookieDoes", only("wrong-cookie", "cookie-of-another-address"), is_valid=lambda *_: True)
simple(
    "LooksAtHalfTheCookie",
    only("wrong-cookie"),
    is_valid=lambda self, cookie, client: cookie[:8] == self.cookie_for(client)[:8],
)
simple("OtherErrorForWrongCookie", only("wrong-cookie", "cookie-of-another-address"), wrong_cookie=lambda _: Refused(1))
simple("OneCookieForAll", only("cookie-of-another-address"), cookie_for=lambda _, __: b"the same for all")
