"""The role gateway: Squid, the native converter, and a throttler that holds nothing yet. Pure."""

from collections.abc import Iterator

from image.firstboot import toml_text
from image.firstboot.actions import Action, DisableUnit, EnableUnit, WriteFile
from image.firstboot.facts import Facts
from image.firstboot.settings import Card
from image.firstboot.toml_text import Table
from image.firstboot.values import CONVERT_PORT

SQUID, CONVERTER, THROTTLER = "tributary-squid.service", "tributary-converter.service", "tributary-throttler.service"
FIREWALL = "nftables.service"
HTTP_PORT, SOCKS_PORT = 3129, 1080
"""Of the native converter; 3128 is Squid's."""

_METRICS = "127.0.0.1:9465"


def gateway(card: Card, facts: Facts) -> Iterator[Action]:
    """Settings and units."""
    clients = [str(network) for network in card.client_networks]
    yield WriteFile("/etc/tributary/squid.toml", toml_text.document({"client_networks": clients}))
    yield WriteFile("/etc/tributary/converter.toml", _converter(clients))
    for unit in (FIREWALL, SQUID, CONVERTER):
        yield EnableUnit(unit)
    yield from _throttler(client_side(card, facts))


def client_side(card: Card, facts: Facts) -> tuple[str, ...]:
    """The interfaces towards clients that are here: those that the card names, else all wired ones."""
    here = (*facts.wired, *facts.wireless)
    return tuple(name for name in card.network if name in here) or facts.wired


def _converter(clients: list[str]) -> str:
    # A converter without clients takes loopback addresses alone: never an open proxy.
    here = "[::]" if clients else "127.0.0.1"
    return toml_text.document(
        {},
        ("[clients]", {"networks": clients}),
        ("[metrics]", {"address": _METRICS}),
        ("[[listen]]", {"name": "web", "kind": "http", "address": f"{here}:{HTTP_PORT}"}),
        ("[[listen]]", {"name": "socks", "kind": "socks5", "address": f"{here}:{SOCKS_PORT}"}),
        ("[[listen]]", {"name": "convert", "kind": "convert", "address": f"{here}:{CONVERT_PORT}", "cookies": True}),
    )


def _throttler(interfaces: tuple[str, ...]) -> Iterator[Action]:
    """A policy that counts. The throttler refuses one whose interface is not there, and so it has to be off then."""
    if not interfaces:
        yield DisableUnit(THROTTLER)
        return
    rule: Table = ("[[rules]]", {"name": "count-only", "min_subflows": 1, "dry": True})
    paths: list[Table] = [(f"[paths.link{number}]", {"interface": name}) for number, name in enumerate(interfaces, 1)]
    yield WriteFile("/etc/tributary/throttler.toml", toml_text.document({}, *paths, rule))
    yield EnableUnit(THROTTLER)
