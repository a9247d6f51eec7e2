"""The role router. Pure.

Access links for tributary-router, a converter that hands over to the gateway, and rules, DHCP and DNS for the LAN.
"""

from collections.abc import Iterator

from image.firstboot import figures, names
from image.firstboot import lan as lan_side
from image.firstboot.actions import PRIVATE, PUBLIC, Action, EnableUnit, WriteFile
from image.firstboot.gateway import CONVERTER, IDLE
from image.firstboot.settings import Card, Lan
from image.firstboot.texts import document
from tributary.settings.hosts import Target
from tributary.wireguard.enrolment import table

ROUTER, LAN, DNSMASQ = "tributary-router.service", "tributary-lan.service", "dnsmasq.service"
PROXY_PORT = 3128

_ROUTER_FILE, _CONVERTER_FILE = "/etc/tributary/router.toml", "/etc/tributary/converter.toml"
_RULES_FILE, _NAMES_FILE = "/etc/tributary/lan.nft", "/etc/dnsmasq.d/tributary-lan.conf"


def home(card: Card, lan: Lan, target: Target) -> Iterator[Action]:
    """Settings and units of a home router that is set up whole."""
    texts = {
        _ROUTER_FILE: _router(card, lan, target),
        _CONVERTER_FILE: _converter(card, lan, target),
        _RULES_FILE: lan_side.rules(card, lan, target),
        _NAMES_FILE: lan_side.names(card, lan),
    }
    for path, text in texts.items():
        yield WriteFile(path, text, PRIVATE if path == _ROUTER_FILE and card.enrolments else PUBLIC)
    yield from names.resolved(card.enrolments, card.other_names)
    # Whoever edits the card of a running box cuts nobody's connections.
    yield EnableUnit(ROUTER, gently=True, reads=(_ROUTER_FILE,))
    yield EnableUnit(CONVERTER, gently=True, reads=(_CONVERTER_FILE,))
    yield EnableUnit(LAN, gently=True, reads=(_RULES_FILE,))
    # It reads its file only when it starts, and has to forget names for their addresses to come into new sets.
    yield EnableUnit(DNSMASQ, reads=(_NAMES_FILE, _RULES_FILE))


def _router(card: Card, lan: Lan, target: Target) -> str:
    prefix = lan.ipv6_prefix if card.prefixes else None
    return document(
        {
            # Always: a by-pass that ends leaves connections behind.
            "bypass": True,
            "wan": {
                name: {**wan.found_by(name), "priority": wan.priority, **wan.written} for name, wan in card.wan.items()
            },
            "probe": {"target": str(target), **card.probe.written},
            "metrics": _metrics(card, figures.ROUTER),
            "bypassed": [{"match": each.in_words, "to": each.to} for each in card.bypass] or None,
            "time_zone": card.time_zone.key if card.time_zone else None,
            "enrolment": list(map(table, card.enrolments)) or None,
            "tunnels": (card.tunnels.written or None) if card.enrolments else None,
            "lan": lan.interface,
            "privacy": lan.privacy if lan.privacy != "full" else None,
            "lan_ipv6": card.ipv6.value if card.prefixes and card.asks_links else None,
            "lan_prefix": str(prefix) if prefix else None,
        }
    )


def _metrics(card: Card, port: int) -> dict[str, str] | None:
    return {"address": figures.address(card.metrics_networks, port)} if card.metrics_networks else None


def _converter(card: Card, lan: Lan, target: Target) -> str:
    """On every address, since the LAN's may come late; who may come in is up to [clients], and to the firewall."""
    common = {"mptcp": False, "via_gateway": True}
    # As it takes them, /7 or longer: what a link's provider will give nobody knows, but it is of these.
    wide = (part for prefix in card.prefixes for part in prefix.subnets(new_prefix=max(prefix.prefixlen, 7)))
    devices = [lan.address.network, *(wide if card.bonds_ipv6 else ())]
    everywhere = "[::]" if card.bonds_ipv6 else "0.0.0.0"
    at = {"address": f"{everywhere}:{lan_side.PORT}"}
    taken = {"name": "lan", "kind": "transparent", "intercept": "tproxy", **at, **common}
    return document(
        {
            "clients": {"networks": list(map(str, devices))},
            "timeouts": {"idle": IDLE},
            "metrics": _metrics(card, figures.CONVERTER),
            "gateway": {"address": str(target), "fallback": "direct"},
            "listen": [taken, {"name": "lan-proxy", "kind": "http", "address": f"0.0.0.0:{PROXY_PORT}", **common}],
        }
    )
