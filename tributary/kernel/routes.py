"""By which interface this host's packets of a subflow leave (rtnetlink(7), RTM_GETROUTE).

The kernel's MPTCP events name none for an accepted subflow. Policy rules count: source, protocol, ports are asked for.
"""

import socket
import struct

from tributary.kernel.netlink import ROUTE, Malformed, attribute, attributes, kept
from tributary.mptcp.four_tuple import FourTuple

_GET_ROUTE = 26
_RTMSG = struct.Struct("=BBBBBBBBI")
# linux/rtnetlink.h
_DST, _SRC, _OIF, _IP_PROTO, _SPORT, _DPORT = 1, 2, 4, 27, 28, 29


def interface_of(subflow: FourTuple) -> str | None:
    """The interface's name, None if there is no route."""
    family = socket.AF_INET6 if subflow.is_ipv6 else socket.AF_INET
    bits = 128 if subflow.is_ipv6 else 32
    request = (
        _RTMSG.pack(family, bits, bits, 0, 0, 0, 0, 0, 0)
        + attribute(_DST, socket.inet_pton(family, subflow.remote))
        + attribute(_SRC, socket.inet_pton(family, subflow.local))
        + attribute(_IP_PROTO, bytes([socket.IPPROTO_TCP]))
        + attribute(_SPORT, struct.pack("!H", subflow.local_port))
        + attribute(_DPORT, struct.pack("!H", subflow.remote_port))
    )
    try:
        found = dict(attributes(kept(ROUTE).ask(_GET_ROUTE, request).body, _RTMSG.size))
        return socket.if_indextoname(struct.unpack("=I", found[_OIF])[0])
    except (OSError, Malformed, KeyError, struct.error):
        return None
