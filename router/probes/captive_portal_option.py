"""The login page that a link's DHCP server or router announces: option 114 of DHCP and its siblings (RFC 8910).

systemd-networkd asks for it (since version 254) and saves it in its state. The format of that file is not documented:
in another format nothing is found.
"""

import re
import socket
from pathlib import Path

_NOTES = Path("/run/systemd/netif/links")
_SAID = re.compile(r"^CAPTIVE_PORTAL=(https?://[!-~]{1,500})$", re.MULTILINE)
"""Not urn:ietf:params:capport:unrestricted, by which a network says that it has no portal (RFC 8910 section 2)."""


def login_page(interface: str, notes: Path = _NOTES) -> str | None:
    """The address that was announced on ``interface``. It is an API for programs; browsers get redirected."""
    try:
        found = _SAID.search((notes / str(socket.if_nametoindex(interface))).read_text(errors="replace"))
    except OSError:
        return None
    return found[1] if found else None
