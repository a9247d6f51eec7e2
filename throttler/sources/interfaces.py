"""The interfaces of this network namespace, and their changes (rtnetlink(7), RTM_NEWLINK and RTM_DELLINK)."""

import errno
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tributary.mptcp.netlink import ROUTE, Netlink
from tributary.settings.errors import CommandError, Exit

_LINKS = 1  # RTNLGRP_LINK of linux/rtnetlink.h
_BUFFER = 2**20
"""Bytes of the socket's queue; what does not fit makes no difference."""

Numbers = Mapping[str, int]
"""The interfaces that are there, each with its number: one that went away and came back has another."""


class Interfaces:
    """Watches the interfaces; a context manager."""

    def __init__(self) -> None:
        self._link = Netlink(ROUTE)
        self._link.listen(_LINKS, _BUFFER)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._link.close()

    def fileno(self) -> int:
        """For selectors."""
        return self._link.fileno()

    def changed(self) -> Numbers | None:
        """The interfaces, None if the kernel reported no change since the last call. Raises CommandError, exit
        71.
        """
        is_told = False
        while True:
            try:
                self._link.receive()
            except BlockingIOError:
                return now() if is_told else None
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise CommandError(Exit.SYSTEM, f"cannot read the kernel's links: {error}") from error
            is_told = True


def now() -> Numbers:
    """The interfaces of this network namespace."""
    return {name: number for number, name in socket.if_nameindex()}
