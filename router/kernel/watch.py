"""Notices that links, addresses, routes or rules have changed; a snapshot shows how."""

import errno
from types import TracebackType
from typing import Self

from pyroute2.netlink import rtnl

from tributary.mptcp.netlink import ROUTE, Netlink
from tributary.settings.errors import CommandError, Exit

_GROUPS = (
    rtnl.RTNLGRP_LINK,
    *(rtnl.RTNLGRP_IPV4_IFADDR, rtnl.RTNLGRP_IPV4_ROUTE, rtnl.RTNLGRP_IPV4_RULE),
    *(rtnl.RTNLGRP_IPV6_IFADDR, rtnl.RTNLGRP_IPV6_ROUTE, rtnl.RTNLGRP_IPV6_RULE),
)
_BUFFER = 2**18
"""Bytes of the socket's queue. An overflow is a change, too."""


class Watch:
    """Changes of links, addresses, routes and rules; a context manager."""

    def __init__(self) -> None:
        self._link = Netlink(ROUTE)
        try:
            for group in _GROUPS:
                self._link.listen(group, _BUFFER)
        except OSError as error:
            self._link.close()
            raise CommandError(Exit.SYSTEM, f"cannot listen to the kernel's changes of links: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._link.close()

    def fileno(self) -> int:
        return self._link.fileno()

    def has_changes(self) -> bool:
        """Whether anything has changed since the last call."""
        changed = False
        while True:
            try:
                self._link.receive()
            except BlockingIOError:
                return changed
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise CommandError(Exit.SYSTEM, f"cannot read the kernel's changes of links: {error}") from error
            changed = True
