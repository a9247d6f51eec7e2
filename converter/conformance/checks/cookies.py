"""The Cookie TLV (RFC 8803 section 6.2.7)."""

from .. import message
from ..message import Code
from ..origin import Origin
from ..rig import Rig, accepted
from ..verdict import Checks, Skip, require
from .refusals import refused

CHECKS = Checks()


def _needs_cookies(rig: Rig) -> Origin:
    if not rig.settings.cookies:
        raise Skip("no --cookies")
    return rig.origin()


@CHECKS.add("6.2.7")
def missing_cookie(rig: Rig) -> str:
    """Without a cookie, error 3 brings one behind a zero byte, and no connection is made."""
    origin = _needs_cookies(rig)
    error = refused(rig, message.encode(origin.connect()), Code.MISSING_COOKIE)
    require(error.value[0] == 0 and any(error.value[1:]), "a zero byte, then a cookie", error)
    origin.stays_untouched()
    return str(error)


@CHECKS.add("6.2.7")
def valid_cookie(rig: Rig) -> str:
    """With the cookie that the converter gave, a Connect is served, again and again."""
    origin = _needs_cookies(rig)
    for _ in range(3):
        upstream, downstream = rig.connected(b"data", origin)
        downstream.expect(b"data", "the data at the server")
        upstream.reset()
    return f"cookie {rig.cookie().hex()}"


@CHECKS.add("6.2.7")
def cookie_behind_connect(rig: Rig) -> str:
    """The Cookie TLV counts wherever it stands in the message."""
    origin = _needs_cookies(rig)
    upstream = rig.upstream()
    upstream.ask(message.encode(origin.connect(), message.cookie(rig.cookie())))
    accepted(upstream.reply())
    origin.accept()
    return "served"


@CHECKS.add("6.2.7")
def wrong_cookie(rig: Rig) -> str:
    """A wrong cookie gives error 32 with the value zero, and no connection."""
    origin = _needs_cookies(rig)
    good = rig.cookie()
    error = None
    for wrong in (good[:-1] + bytes([good[-1] ^ 1]), bytes([good[0] ^ 128]) + good[1:], good[:-4], good + bytes(4)):
        error = refused(rig, message.encode(message.cookie(wrong), origin.connect()), Code.NOT_AUTHORIZED)
        require(not any(error.value), "a value of zero", error)
    origin.stays_untouched()
    return str(error)


@CHECKS.add("6.2.7")
def cookie_of_another_address(rig: Rig) -> str:
    """A cookie is bound to the client's address: from another it gives error 32."""
    origin = _needs_cookies(rig)
    if len(rig.settings.sources) < 2:
        raise Skip("needs two addresses in --source")
    first, second = rig.settings.sources[:2]
    cookie = rig.cookie(first)
    require(cookie != rig.cookie(second), "different cookies for different addresses", cookie.hex())
    upstream = rig.upstream(second)
    upstream.ask(message.encode(message.cookie(cookie), origin.connect()))
    error = upstream.reply().error
    require(error is not None and error.code == Code.NOT_AUTHORIZED, "error 32", error or "no error")
    origin.stays_untouched()
    return str(error)
