"""Native converters behind the one that clients go to."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.netns.converter_world import ALL, CLIENTS, GATEWAY, Converter, World

NODES = {name: f"{GATEWAY}:{port}" for port, name in enumerate(("first", "second", "third"), 2301)}
"""Converters at the gateway behind the one that clients go to."""
ALL_VIA_GATEWAY = ALL.replace("[[listen]]", "[[listen]]\nvia_gateway = true")


def gateway(address: str, *keys: str) -> str:
    return f'[gateway]\naddress = "{address}"\n' + "".join(f"{key}\n" for key in keys)


def route(network: str, via: str) -> str:
    return f'[[gateway.routes]]\nto = ["{network}"]\nvia = "{via}"\n'


def gateway_by(directory: Path, routes: str) -> str:
    """A gateway's table with a file of these routes."""
    file = directory / "routes"
    file.write_text(routes)
    return f'[gateway]\nroutes_file = "{file}"\n'


def served(converter: Converter) -> list[str]:
    """The outcomes of its connections, in their order."""
    return [str(line["outcome"]) for line in converter.lines()]


@contextmanager
def node(conv: World, name: str, way: str = "") -> Iterator[Converter]:
    """One of NODES; ``way`` is its table ``gateway`` if servers are not next."""
    listen = f'[[listen]]\nkind = "convert"\naddress = "{NODES[name]}"\nvia_gateway = {str(bool(way)).lower()}\n'
    # The metrics' port is the first converter's.
    with conv.converter(f"{CLIENTS}[metrics]\n{way}{listen}") as converter:
        yield converter
