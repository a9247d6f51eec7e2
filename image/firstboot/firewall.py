"""Who is let in, as an addition to the rules that the image brings. Pure.

The image's firewall drops what nobody let in. Its sets say whom it knows, and it reads tributary-site*.nft beside it.
"""

from collections.abc import Iterable, Iterator
from ipaddress import ip_network

from image.firstboot import console, figures, first_start
from image.firstboot.actions import Action, EnableUnit, WriteFile
from image.firstboot.gateway import PORTS as GATEWAY_PORTS
from image.firstboot.gateway import tunnels
from image.firstboot.home import PROXY_PORT
from image.firstboot.lan import TAKEN
from image.firstboot.settings import Card, Lan
from image.firstboot.texts import HEAD
from tributary.settings.hosts import CONVERT_PORT, Network

UNIT = "tributary-firewall.service"
TABLE, LAN_SIDE = "tributary-firewall", "lan_interfaces"

_PATH = "/etc/nftables.d/tributary-site-card.nft"
_PRIVATE = [ip_network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fe80::/10")]
"""From where SSH, which takes keys alone, is let in. The card's networks, which may lie in these, come in the same
command: nft 1.0 refuses two that overlap."""


def firewall(card: Card) -> Iterator[Action]:
    """The file for what the card says, and the unit that loads it, in every role."""
    lines = list(_networks("admin_networks", [*_PRIVATE, *card.admin_networks]))
    lines += _networks("metrics_networks", card.metrics_networks)
    lines += [*([_add("metrics_ports", figures.PORTS)] if card.metrics_networks else []), *_gateway(card)]
    if card.lan and card.target:
        lines += [*_home(card.lan), *_console(card)]
    elif card.asks_by_page:
        # The page itself says which interface is the LAN's, while it serves there.
        at = f"ip daddr {first_start.address(card).ip} tcp dport {first_start.PORT}"
        lines.append(f"add rule inet {TABLE} tcp_in iifname @{LAN_SIDE} {at} accept")
    else:
        lines += _console(card)
    yield WriteFile(_PATH, HEAD + "".join(f"{line}\n" for line in lines))
    yield EnableUnit(UNIT, gently=True)


def _gateway(card: Card) -> Iterator[str]:
    routers = tunnels(card)
    inside = [routers.network] if routers else []
    yield from _networks("client_networks", [*card.client_networks, *inside])
    if card.client_networks:
        yield _add("client_ports", GATEWAY_PORTS)
    elif routers:
        yield _add("client_ports", [CONVERT_PORT])
    if routers:
        yield _add("tunnel_ports", [routers.port])
        if routers.dns:
            yield _add("tunnel_interfaces", [f'"{routers.interface}"'])
        yield from _tracking()


def _home(lan: Lan) -> Iterator[str]:
    yield _add(LAN_SIDE, [f'"{lan.interface}"'])
    yield from _networks("client_networks", [lan.address.network])
    yield _add("client_ports", [PROXY_PORT])
    # What the LAN's rules bring to the converter still has the port of the server that it was sent to.
    yield f"add rule inet {TABLE} tcp_in iifname @{LAN_SIDE} meta mark {TAKEN:#x} accept"
    yield from _tracking()


def _console(card: Card) -> Iterator[str]:
    for rule in console.rules(card):
        yield f"add rule inet {TABLE} tcp_in {rule} accept"


def _tracking() -> Iterator[str]:
    """Address translation needs the connections that a gateway's rules leave untracked; these come before them."""
    for chain in ("untracked_in", "untracked_out"):
        yield f"insert rule inet {TABLE} {chain} accept"


def _networks(name: str, networks: Iterable[Network]) -> Iterator[str]:
    every = list(networks)
    for version in (4, 6):
        if chosen := [network for network in every if network.version == version]:
            yield _add(f"{name}{version}", chosen)


def _add(name: str, elements: Iterable[object]) -> str:
    return f"add element inet {TABLE} {name} {{ {', '.join(map(str, elements))} }}"
