"""This machine's addresses, of ip(8)."""

import json

from tributary.kernel.process import QUICK, run
from tributary.settings.errors import CommandError


def own(interface: str = "") -> tuple[str, ...]:
    """Those of global scope, without temporary ones (RFC 8981), of one ``interface`` or of all that are up.

    None if ip(8) or the interface is not here. For an address of another scope Debian 13's shows an empty object.
    """
    which = ("dev", interface) if interface else ("up",)
    try:
        shown = run(["ip", "-json", "address", "show", *which, "scope", "global"], timeout=QUICK)
    except CommandError:
        return ()
    if shown.returncode:
        return ()
    found = [each for link in json.loads(shown.stdout or "[]") for each in link.get("addr_info", [])]
    return tuple(each["local"] for each in found if "local" in each and not each.get("temporary"))
