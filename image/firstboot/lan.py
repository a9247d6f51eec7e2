"""The LAN's rules for nft(8), and its DHCP and DNS for dnsmasq(8). Pure."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address

from image.firstboot.bypass import BEST, GATEWAY, Bypass, is_in
from image.firstboot.names import NOBODY
from image.firstboot.settings import Card, Lan
from image.firstboot.texts import filled
from squid.targets import OPENABLE
from tributary.fwmarks import BY_LINK, RETURN
from tributary.settings.hosts import Target
from tributary.wireguard.addresses import DEFAULT_SLOT, GLOBAL

PORT = 8300
"""Of the converter's listener for all that devices send to the Internet by TCP."""

LIFETIME = "90m"
"""How long a device may keep a prefix that it is not told of again (RFC 9096 section 4)."""

TAKEN = 0x1
"""The mark of packets that are for this listener (tributary-lan.service)."""

_TABLE = "tributary-lan"


def rules(card: Card, lan: Lan, gateway: Target) -> str:
    """The table ``tributary-lan``."""
    ways = [
        way
        for number, table in enumerate(card.bypass, start=1)
        for way in _ways(number, table, list(card.wan), six=bool(card.prefixes))
    ]
    return filled(
        "lan.nft.j2",
        card=card,
        lan=lan,
        gateway=gateway.address,
        port=PORT,
        taken=f"{TAKEN:#x}",
        best=f"{BY_LINK:#x}",
        private=[str(network) for network in OPENABLE if network.version == 4],
        name_sets=[_set(number) for number, table in enumerate(card.bypass, start=1) if table.domains],
        ways=ways,
        gateways=[each.gateway.address for each in card.enrolments if isinstance(each.gateway.address, IPv4Address)],
        back=f"{RETURN:#x}",
        internet6=GLOBAL,
        tunnel=card.tunnels.name(DEFAULT_SLOT),
    )


def names(card: Card, lan: Lan) -> str:
    """What devices are told, and which names' addresses go into sets of the rules."""
    inside = card.enrolments[0].inside if card.enrolments else None
    # A device may be in several tables.
    leases = dict.fromkeys((table.mac, table.device) for table in card.forwards if table.mac)
    return filled(
        "dnsmasq.conf.j2",
        card=card,
        lan=lan,
        inside=inside,
        asks_others=card.other_names != NOBODY,
        sets_of=dict(_sets_by_domain(card.bypass, _names_of_gateways(card), six=bool(card.prefixes))),
        fixed=leases,
        lifetime=LIFETIME,
        tunnel=None if card.asks_links else card.tunnels.name(DEFAULT_SLOT),
    )


def _ways(number: int, table: Bypass, links: Sequence[str], *, six: bool) -> Iterator[str]:
    """The rules for one table [[bypass]]: one for each IP version that it has servers' addresses of."""
    for version in _versions(table, six=six):
        by = BY_LINK + (0 if table.to in (BEST, GATEWAY) else 1 + links.index(table.to))
        choice = [] if table.to == GATEWAY else [f"ct mark set {by:#x}"]
        yield " ".join([*_matches(number, table, version), "counter", *choice, "return"])


def _versions(table: Bypass, *, six: bool) -> list[int]:
    if not (table.prefixes or table.domains):
        # Ports and devices are the same in both.
        return [4]
    known = {each.version for each in table.prefixes} or {4, 6}
    return [version for version in ((4, 6) if six else (4,)) if version in known]


def _matches(number: int, table: Bypass, version: int) -> Iterator[str]:
    address = "ip daddr" if version == 4 else "ip6 daddr"
    if table.prefixes:
        yield f"{address} {_elements([each for each in table.prefixes if each.version == version])}"
    if table.devices:
        yield f"ether saddr {_elements(table.devices)}"
    if table.ports:
        yield f"meta l4proto . th dport {_elements(f'{each.protocol} . {each.span}' for each in table.ports)}"
    if table.domains:
        # An address that is in use stays in the set, however long ago it was looked up.
        known = _set(number, version)
        yield f"{address} @{known} update @{known} {{ {address} }}"


def _elements(values: Iterator[str] | Sequence[object]) -> str:
    return f"{{ {', '.join(map(str, values))} }}"


def _set(number: int, version: int = 4) -> str:
    return f"bypass{number}_names" if version == 4 else f"bypass{number}_names6"


def _names_of_gateways(card: Card) -> Sequence[str]:
    """Of those that have names, where the addresses of these matter."""
    named = (each.gateway.host.rstrip(".") for each in card.enrolments if each.gateway.address is None)
    return tuple(dict.fromkeys(named)) if card.forwards else ()


def _sets_by_domain(tables: Sequence[Bypass], gateways: Sequence[str], *, six: bool) -> Iterator[tuple[str, str]]:
    """Each domain, and the sets of all tables that it is in: dnsmasq looks no further than the longest that fits."""
    for domain in dict.fromkeys((*(domain for table in tables for domain in table.domains), *gateways)):
        sets = [f"4#inet#{_TABLE}#gateways"] if domain in gateways else []
        sets += [
            f"{version}#inet#{_TABLE}#{_set(number, version)}"
            for number, table in enumerate(tables, start=1)
            if any(is_in(domain, outer) for outer in table.domains)
            for version in ((4, 6) if six else (4,))
        ]
        yield domain, ",".join(sets)
