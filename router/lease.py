"""Where to log in, as a link's DHCP server or router has said it: option 114 of DHCP and its siblings (RFC 8910).

systemd-networkd asks for it (from version 254 on) and notes it beside its other findings. The form of that note is its
own affair: where it is another one, nothing was said.
"""

import re
import socket
from pathlib import Path

_NOTES = Path("/run/systemd/netif/links")
_SAID = re.compile(r"^CAPTIVE_PORTAL=(https?://[!-~]{1,500})$", re.MULTILINE)
"""Not urn:ietf:params:capport:unrestricted, by which a network says that nothing is in the way (RFC 8910 section 2)."""


def login_page(interface: str, notes: Path = _NOTES) -> str | None:
    """The address that was said on ``interface``, which is that of a program's page; browsers are led on from there."""
    try:
        found = _SAID.search((notes / str(socket.if_nametoindex(interface))).read_text(errors="replace"))
    except OSError:
        return None
    return found[1] if found else None
