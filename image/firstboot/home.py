"""The role cpe. Pure.

Access links for the daemon cpe, a converter that hands over to the gateway, and rules, DHCP and DNS for the LAN.
"""

from collections.abc import Iterator
from pathlib import Path

from image.firstboot.actions import Action, EnableUnit, WriteFile
from image.firstboot.document import document
from image.firstboot.gateway import CONVERTER
from image.firstboot.settings import Card, Lan, Wan
from image.firstboot.values import Target
from squid.targets import OPENABLE
from tributary.settings.templates import rendered

CPE, LAN, DNSMASQ = "tributary-cpe.service", "tributary-lan.service", "dnsmasq.service"
PROXY_PORT = 3128
TAKEN = (80, 443)
"""Ports of connections that are taken without asking. Each has a listener of its own: none has to be rewritten."""

PORTS = (*TAKEN, PROXY_PORT)

_TEMPLATES = Path(__file__).parent


def home(card: Card, lan: Lan, target: Target) -> Iterator[Action]:
    """Settings and units of a home router that is set up whole."""
    yield WriteFile("/etc/tributary/cpe.toml", _cpe(card, target))
    yield WriteFile("/etc/tributary/converter.toml", _converter(lan, target))
    yield WriteFile("/etc/tributary/lan.nft", _rules(lan))
    yield WriteFile("/etc/dnsmasq.d/tributary-lan.conf", _names(lan, card.hostname))
    for unit in (CPE, CONVERTER, LAN, DNSMASQ):
        yield EnableUnit(unit)


def _cpe(card: Card, target: Target) -> str:
    return document({"wan": {name: _wan(wan) for name, wan in card.wan.items()}, "probe": {"target": str(target)}})


def _wan(wan: Wan) -> dict[str, object]:
    rule = {"interface": wan.interface, "driver": wan.driver, "mac": wan.mac}
    given = {key: value for key, value in rule.items() if value}
    return {**given, "priority": wan.priority, "backup": wan.backup}


def _converter(lan: Lan, target: Target) -> str:
    """On every address, since the LAN's may come late; who may come in is up to [clients], and to the firewall."""
    common = {"mptcp": False, "via_gateway": True}
    taken = [
        {"name": f"lan-{port}", "kind": "transparent", "intercept": "tproxy", **_at(port), **common} for port in TAKEN
    ]
    return document(
        {
            "clients": {"networks": [str(lan.address.network)]},
            "gateway": {"address": str(target), "when_away": "direct"},
            "listen": [*taken, {"name": "lan-proxy", "kind": "http", **_at(PROXY_PORT), **common}],
        }
    )


def _at(port: int) -> dict[str, str]:
    return {"address": f"0.0.0.0:{port}"}


def _rules(lan: Lan) -> str:
    networks = [str(network) for network in OPENABLE if network.version == 4]
    return rendered(_TEMPLATES / "lan.nft.j2", lan=lan, ports=TAKEN, private=networks)


def _names(lan: Lan, hostname: str) -> str:
    return rendered(_TEMPLATES / "dnsmasq.conf.j2", lan=lan, hostname=hostname)
