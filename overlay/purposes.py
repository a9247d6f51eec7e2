"""What a certificate is for, and the names in it."""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

ADMINISTRATOR = "root"
"""etcd's name for the user who may change users."""
MEMBER = "etcd"
"""The common name of all members of etcd. No user of etcd has it, so that it gives a client no access."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,+-]{0,63}")
"""As in overlay/control/src/name.rs."""
_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}$)(?![0-9.]*$){_LABEL}(\.{_LABEL})*")
"""A host name by RFC 1123 section 2.1, but no malformed IPv4 address."""


@dataclass(frozen=True)
class Purpose:
    """What a certificate is for; by default for a client of etcd with this user name."""

    connects: bool = True
    accepts: bool = False
    addresses: Sequence[str] = ()
    """The holder's addresses."""
    role: str | None = None
    """In a request hand-off, as in handoff/link/src/role.rs."""
    common_name: str | None = None
    """Instead of the holder's own name."""


OVERLAY = Purpose()
"""Of a node, a controller or a reader."""
HANDOFF_FRONT = Purpose(role="front")
"""A front only connects to others."""


member = partial(Purpose, True, True, common_name=MEMBER)
"""From addresses: of a member of etcd, which is also a client of the others."""
handoff_switch, handoff_back_end = (partial(Purpose, False, True, role=role) for role in ("switch", "back-end"))
"""Likewise: they only accept fronts."""


def is_address(text: str) -> bool:
    """Whether a certificate can contain this: an IP address without scope, or a host name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _HOST.fullmatch(text) is not None
    return "%" not in text
