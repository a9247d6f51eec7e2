"""What the page needs of the machine while it is served, and the server. Everything goes when the block ends."""

import asyncio
import logging
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from console import web
from image.firstboot.firewall import LAN_SIDE, TABLE
from image.firstboot.page.app import Page
from image.firstboot.settings import Lan
from tributary.kernel import process
from tributary.settings.errors import CommandError, Exit

EVERY = 1.0
"""Seconds between two looks at the ports."""
_LIFETIME = 60
"""Seconds that the address stays when nobody renews it: nothing is left behind, whatever ends this program."""

_END = 5.0
"""Seconds for dnsmasq(8) to end."""
_LEASE = "2m"
"""The shortest that dnsmasq(8) knows. Soon after, devices ask the router that the box has become."""


def serve(page: Page, listener: socket.socket, goes_on: Callable[[], bool]) -> None:
    """Answer until the page has taken settings, or ``goes_on``, which is asked about each second, says no."""
    # What strangers send is nothing for the log, nor that they read no answer until the server ends.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    logging.getLogger("uvicorn.error").addFilter(_is_fault)
    asyncio.run(_serve(page, listener, goes_on))


def _is_fault(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


async def _serve(page: Page, listener: socket.socket, goes_on: Callable[[], bool]) -> None:
    web.bound(listener)
    server = web.server(page.application)
    serving = asyncio.create_task(server.serve([listener]))
    while not (page.accepted or serving.done()) and goes_on():
        await asyncio.sleep(EVERY)
    if page.accepted:
        # The browser asks for the last page's look.
        await asyncio.sleep(EVERY)
    server.should_exit = True
    await serving


@contextmanager
def lan_side(lan: Lan, *, gives_address: bool) -> Iterator[Callable[[], None]]:
    """``lan.interface`` with the firewall open for the page, DHCP for devices, and its address if nobody else gives it.

    Gives what makes that true again. Both raise CommandError (69, 71).
    """
    lifetimes = ("valid_lft", str(_LIFETIME), "preferred_lft", str(_LIFETIME))

    def renew() -> None:
        if gives_address:
            process.output(["ip", "address", "replace", str(lan.address), "dev", lan.interface, *lifetimes])
        # The firewall may have been loaded anew.
        process.output(["nft", "add", *_element(lan.interface)])
        if dhcp is not None and (ended := dhcp.poll()) is not None:
            raise CommandError(Exit.SYSTEM, f"dnsmasq at {lan.interface} ended with {ended}")

    dhcp = None
    try:
        renew()
        with _dhcp(lan) as dhcp:
            yield renew
    finally:
        process.run(["nft", "delete", *_element(lan.interface)])
        if gives_address:
            process.run(["ip", "address", "delete", str(lan.address), "dev", lan.interface])


@contextmanager
def _dhcp(lan: Lan) -> Iterator[subprocess.Popen[bytes] | None]:
    """Addresses and nothing else: no router and no DNS server, so that devices keep what other network they have."""
    if lan.leases is None:
        yield None
        return
    process.require("dnsmasq")
    server = subprocess.Popen(dhcp_command(lan), process_group=0)
    with process.ended(server, _END):
        yield server


def dhcp_command(lan: Lan) -> Sequence[str]:
    """dnsmasq(8), without DNS, for one interface; it keeps no file of its leases."""
    first, last = lan.leases or (lan.address.ip, lan.address.ip)
    return (
        *("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--pid-file="),
        *("--log-facility=-", "--quiet-dhcp"),
        *(f"--interface={lan.interface}", "--except-interface=lo", "--bind-interfaces", "--leasefile-ro"),
        f"--dhcp-range={first},{last},{lan.address.netmask},{_LEASE}",
        *("--dhcp-option=option:router", "--dhcp-option=option:dns-server"),
    )


def _element(interface: str) -> Sequence[str]:
    return "element", "inet", TABLE, LAN_SIDE, f'{{ "{interface}" }}'
