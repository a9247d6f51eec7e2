from tests.commands.conformance.mutants.mutant import ANY, behind_connect, lenient, mutant, simple
from tests.commands.conformance.reading import Refused
from tests.commands.conformance.reference import Converter

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
