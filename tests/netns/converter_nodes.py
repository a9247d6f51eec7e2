"""Native converters behind the one that clients go to."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

from tests.netns.converter_process import Converter
from tests.netns.converter_world import ALL, CLIENTS, GATEWAY, World

NODES = {name: f"{GATEWAY}:{port}" for port, name in enumerate(("first", "second", "third"), 2301)}
"""Converters at the gateway behind the one that clients go to."""
ALL_VIA_GATEWAY = ALL.replace("[[listen]]", "[[listen]]\nvia_gateway = true")


def gateway(address: str, *keys: str) -> str:
    return f'[gateway]\naddress = "{address}"\n' + "".join(f"{key}\n" for key in keys)


def via(address: str, *keys: str) -> str:
    """The configuration of a converter that clients go to, and that goes on by the one at this address."""
    return ALL_VIA_GATEWAY + gateway(address, *keys)


def at_home(listen: str, address: str, *keys: str) -> str:
    """The configuration of a home router's converter: what comes from lan goes on by the one at this address."""
    clients = '[clients]\nnetworks = ["10.0.9.0/24", "fd00:9::/64"]\n'
    return f"{clients}{gateway(address, *keys)}[[listen]]\n{listen}via_gateway = true\n"


def route(network: str, via: str) -> str:
    return f'[[gateway.routes]]\nto = ["{network}"]\nvia = "{via}"\n'


def via_routes(folder: Path, routes: str) -> str:
    """The configuration of a converter that clients go to, and that goes on by a file of these routes."""
    file = folder / "routes"
    file.write_text(routes)
    return f'{ALL_VIA_GATEWAY}[gateway]\nroutes_file = "{file}"\n'


@contextmanager
def node(conv: World, name: str, way: str = "", tables: str = "", keys: str = "") -> Iterator[Converter]:
    """One of NODES; ``way`` is its table ``gateway`` if servers are not next, ``keys`` are its listener's."""
    listen = f'[[listen]]\nkind = "convert"\naddress = "{NODES[name]}"\nvia_gateway = {str(bool(way)).lower()}\n'
    # The metrics' port is the first converter's.
    with conv.converter(f"{CLIENTS}[metrics]\n{way}{tables}{listen}{keys}") as converter:
        yield converter


@contextmanager
def chain(conv: World, *keys: str, length: int = 3, head: str = "") -> Iterator[list[Converter]]:
    """The converter that clients go to, with ``head`` in its configuration, and NODES behind it, one after the other;
    ``keys`` are those of each's table ``gateway``.
    """
    names = list(NODES)[:length]
    with ExitStack() as stack:
        converters = [stack.enter_context(conv.converter(head + via(NODES[names[0]], *keys)))]
        for name, behind in pairwise((*names, "")):
            way = gateway(NODES[behind], *keys) if behind else ""
            converters.append(stack.enter_context(node(conv, name, way)))
        yield converters
