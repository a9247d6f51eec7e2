"""What happens to a testbed's links while they are in use: packets get lost, an address goes, another one comes.

Each is a context manager, so that none outlives its block; what it made ends with the testbed in any case. The links'
emulators stay as they are: nftables drops what arrives at either end, behind the emulator's queue.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from experiments.testbed.build import Testbed
from experiments.testbed.topology import Link

_TABLE = """table netdev impairment-{link} {{
    set burst {{ type iface_index; flags dynamic, timeout; timeout {burst}ms; }}
    chain arriving {{ type filter hook ingress device {link} priority -500; {fate}; }}
}}"""


def lossy(testbed: Testbed, link: Link, percent: int = 100) -> AbstractContextManager[None]:
    """Of all frames that arrive over ``link``, at either end, ``percent`` are dropped at random: 100 is a black hole.

    Raises CommandError (exit 71) where the kernel lacks nftables' netdev family or its numgen.
    """
    return _impaired(testbed, link, "drop" if percent == 100 else f"numgen random mod 100 < {percent} drop")


def losing_bursts(testbed: Testbed, link: Link, milliseconds: int, one_in: int = 1000) -> AbstractContextManager[None]:
    """At either end, once a second at most, one frame ``one_in`` so many begins a time in which all are dropped."""
    begin = f"numgen random mod {one_in} == 0 limit rate 1/second burst 1 packets add @burst {{ iif }} drop"
    return _impaired(testbed, link, f"iif @burst drop; {begin}", milliseconds)


@contextmanager
def _impaired(testbed: Testbed, link: Link, fate: str, burst: int = 1) -> Iterator[None]:
    with ExitStack() as made:
        for end in (testbed.client, testbed.gateway):
            end.run("nft", _TABLE.format(link=link.name, fate=fate, burst=burst))
            made.callback(end.run, "nft", "delete", "table", "netdev", f"impairment-{link.name}")
        yield


@contextmanager
def without_address(testbed: Testbed, link: Link) -> Iterator[None]:
    """The client is gone from ``link``, from which it joins sessions: no IPv4 address there, no MPTCP endpoint."""
    _leave(testbed, link, str(link.client4))
    try:
        yield
    finally:
        _enter(testbed, link, str(link.client4))


@contextmanager
def other_address(testbed: Testbed, link: Link, address: str) -> Iterator[None]:
    """The client is on ``link`` with an IPv4 ``address`` of the link's network, and joins sessions from there."""
    source = ("from", address, "lookup", str(100 + link.number))
    testbed.client.ip("rule", "add", *source)
    _enter(testbed, link, address)
    try:
        yield
    finally:
        _leave(testbed, link, address)
        testbed.client.ip("rule", "delete", *source)


def _leave(testbed: Testbed, link: Link, address: str) -> None:
    """As a network manager does: the kernel's path manager goes by its endpoints, not by links or addresses."""
    testbed.client.ip("mptcp", "endpoint", "delete", "id", _endpoint(testbed, address))
    testbed.client.ip("address", "delete", f"{address}/24", "dev", link.name)


def _enter(testbed: Testbed, link: Link, address: str) -> None:
    """With the last address of an interface its routes went too (fib_inetaddr_event() in net/ipv4/fib_frontend.c)."""
    default = ("route", "replace", "default", "via", str(link.gateway4), "dev", link.name)
    testbed.client.ip("address", "add", f"{address}/24", "dev", link.name)
    testbed.client.ip(*default, "table", str(100 + link.number))
    testbed.client.ip(*default, "metric", str(link.number))
    testbed.client.ip("mptcp", "endpoint", "add", address, "dev", link.name, "subflow")


def _endpoint(testbed: Testbed, address: str) -> str:
    """The id of the client's endpoint ``address``, from lines such as ``10.0.2.2 id 1 subflow dev wireless``."""
    lines = testbed.client.ip("mptcp", "endpoint", "show").splitlines()
    return next(line.split()[2] for line in lines if line.split()[0] == address)
