"""What is wrong between the keys of a card, each of which is right by itself. Pure."""

from collections.abc import Iterator
from itertools import combinations

from gateway.settings import HOST
from image.firstboot import bypass, forward, names, pppoe, values, vlans
from image.firstboot.access_point import FIRST_WIRELESS, AccessPoint
from image.firstboot.settings import MOST_WANS, WANS, Card, Lan, Leg, Role
from image.firstboot.values import Contradiction
from image.firstboot.wan import Wan
from tributary.settings.lan_ipv6 import PRIVATE, LanIpv6
from tributary.settings.ports import Ports
from tributary.wireguard.enrolment import TABLES


def contradictions(card: Card, role: Role) -> Iterator[Contradiction]:
    """What is wrong between keys, for a box in ``role``."""
    if role is Role.ROUTER and card.has_router and not card.asks_by_page:
        yield from _missing(card)
        if card.other_names == names.NOBODY and not card.enrolments:
            yield "lan.dns", names.NOBODY, f"{names.LINKS!r} or servers, since without tunnels nobody else can be asked"
    if card.routers.model_fields_set and not card.public_name:
        yield "public_name", "(missing)", f"with a table [routers], {HOST}"
    if "name" in card.routers.model_fields_set:
        yield "routers.name", card.routers.name, "no such key: public_name is the name"
    yield from _between_wans(card)
    yield from _by_kind(card)
    if card.access_point is not None:
        yield from _of_access_point(card, card.access_point)
    yield from bypass.contradictions(card.bypass, card.wan)
    if card.forward and not card.enrolment:
        yield "enrolment", "(missing)", f"{TABLES}, since [[forward]] needs the gateway's tunnels"
    yield from _of_tunnels(card)
    if card.prefixes:
        yield from bypass.too_often(card.bypass)
    if card.lan is not None:
        yield from _around_lan(card, card.lan)
        yield from _of_ipv6(card, card.lan)


def _missing(card: Card) -> Iterator[Contradiction]:
    """A home router is set up whole, or not at all."""
    if len(card.wan) < 2:
        yield "wan", list(card.wan), f"two or more, {WANS}"
    if card.lan is None:
        yield "lan", "(missing)", "a table [lan] with the keys interface and address"
    if card.leg is Leg.PLAIN and card.gateway is None:
        yield "gateway", "(missing)", values.GATEWAY
    elif card.leg is Leg.WIREGUARD and not card.enrolment:
        yield "enrolment", "(missing)", TABLES
    elif card.target is None:
        yield "enrolment", "(missing)", f"{TABLES}; or gateway, {values.GATEWAY}"
    elif card.leg is None and card.gateway and card.enrolment:
        yield "leg", "(missing)", "'wireguard' or 'plain', since there are both gateway and enrolment"
    for number, each in enumerate(card.enrolments):
        if each.inside != card.enrolments[0].inside:
            accepted = f"{card.enrolments[0].inside}, as in the first table: one address for the converter"
            yield f"enrolment[{number}].inside", str(each.inside), accepted


def _of_ipv6(card: Card, lan: Lan) -> Iterator[Contradiction]:
    """Where the LAN's IPv6 addresses come from has to give some."""
    if lan.ipv6 is LanIpv6.GATEWAY and not card.prefixes:
        yield "lan.ipv6", "gateway", "another value, since no [[enrolment]] that is used has a prefix"
    if (lan.ipv6 is LanIpv6.TRANSLATED) != (lan.ipv6_prefix is not None):
        given = str(lan.ipv6_prefix or "(missing)")
        yield "lan.ipv6_prefix", given, f"with ipv6 = 'translated', and only then, {PRIVATE}"
    if lan.bond_ipv6 and not card.asks_links:
        yield "lan.bond_ipv6", True, "only with ipv6 = 'link' or 'translated': a gateway's own is always bonded"
    if card.asks_links and not any(card.may_bring_a_prefix(wan) for wan in card.wan.values()):
        accepted = "'gateway' or 'off', since no link is by DHCP or PPPoE, and so none brings a prefix"
        yield "lan.ipv6", card.ipv6.value, accepted


def _between_wans(card: Card) -> Iterator[Contradiction]:
    for (_, one), (name, other) in combinations(card.wan.items(), 2):
        if one.rule == other.rule:
            given = {"interface": other.interface, **other.by_device, "vlan": other.vlan}
            yield f"wan.{name}", {key: value for key, value in given.items() if value}, "a rule that no other link has"


def _of_tunnels(card: Card) -> Iterator[Contradiction]:
    """Their interfaces are nobody else's."""
    tunnels = [card.tunnels.name(place) for place in range(MOST_WANS + 2)]
    named = {*card.network, *(each.interface for each in (card.lan, card.access_point, card.wifi) if each)}
    by_name = [wan for wan in card.wan.values() if not wan.by_device]
    if named.intersection(tunnels) or any(wan.may_be(tunnel) for wan in by_name for tunnel in tunnels):
        accepted = f"a prefix with which no other interface is called {tunnels[0]} to {tunnels[-1]}"
        yield "tunnels.prefix", card.tunnels.prefix, accepted
    target = card.probe.target
    if card.enrolments and target and target.address != card.enrolments[0].inside:
        accepted = (
            f"no such key, or a port of {card.enrolments[0].inside}, the gateway inside: tunnels lead nowhere else"
        )
        yield "probe.target", str(target), accepted


def _by_kind(card: Card) -> Iterator[Contradiction]:
    """Links that are more than an interface with DHCP."""
    for name, wan in card.wan.items():
        if wan.pppoe:
            yield from _on_named(name, wan, "pppoe", pppoe.interface("NAME"))
            yield from _alone(card, name, wan)
        if wan.vlan is not None:
            yield from _on_named(name, wan, "vlan", vlans.interface("NAME"))
            yield from _tagged(card, name, wan)
        if (wan.pppoe or wan.modem) and wan.interface in card.network:
            yield f"network.{wan.interface}", "(given)", f"no such table: wan.{name} gets its address from its provider"
    modems = [name for name, wan in card.wan.items() if wan.modem]
    for name in modems[1:]:
        yield f"wan.{name}.modem", "(given)", f"one link with a modem, and wan.{modems[0]} is one"


def _of_access_point(card: Card, point: AccessPoint) -> Iterator[Contradiction]:
    joins = card.wifi and (None in (point.interface, card.wifi.interface) or point.interface == card.wifi.interface)
    if joins:
        accepted = (
            f"{values.WIRELESS}, other than wifi.interface, which has to be given as well: one interface cannot do both"
        )
        yield "access_point.interface", point.interface or "(missing)", accepted
    interface = point.interface or FIRST_WIRELESS
    for name, wan in card.wan.items():
        if wan.may_be(interface):
            accepted = f"one that access_point.interface, {interface!r}, does not fit"
            yield f"wan.{name}.interface", "(given)", accepted
    if interface in card.network:
        yield f"network.{interface}", "(given)", "no such table: the access point belongs to the LAN"


def _on_named(name: str, wan: Wan, key: str, made: str) -> Iterator[Contradiction]:
    """A link with this ``key`` has an interface like ``made``, which is made on one that is named."""
    if len(name) > vlans.LONGEST_NAME:
        accepted = f"a name of up to {vlans.LONGEST_NAME} signs, since with {key} the interface is called {made}"
        yield f"wan.{name}", "(given)", accepted
    if wan.interface is None or "*" in wan.interface or "?" in wan.interface:
        accepted = f"with {key} the whole name of the interface that the modem is plugged into, such as 'end0'"
        yield f"wan.{name}.interface", wan.interface or "(missing)", accepted
    for each in wan.by_device:
        yield f"wan.{name}.{each}", "(given)", f"no such key with {key}: interface alone says where the modem is"


def _alone(card: Card, name: str, wan: Wan) -> Iterator[Contradiction]:
    """What is below PPPoE is no link by itself, and what pppd makes is no other link's."""
    if wan.modem:
        yield f"wan.{name}.modem", "(given)", "either pppoe or modem"
    for other, rule in card.wan.items():
        for taken in (wan.interface or "", pppoe.interface(name)):
            if other != name and not rule.by_device and rule.may_be(taken):
                accepted = f"one that {taken}, which is for wan.{name}, does not fit"
                yield f"wan.{other}.interface", rule.interface, accepted


def _tagged(card: Card, name: str, wan: Wan) -> Iterator[Contradiction]:
    """The tag of a link is in one place, and what is below it has no addresses."""
    if wan.pppoe or wan.modem:
        accepted = "no such key with a modem" if wan.modem else f"in the table [wan.{name}.pppoe]"
        yield f"wan.{name}.vlan", wan.vlan, accepted
    if wan.interface in card.network:
        accepted = f"no such table with vlan; for fixed addresses interface = '{wan.interface}.{wan.vlan}' without vlan"
        yield f"network.{wan.interface}", "(given)", accepted


def _around_lan(card: Card, lan: Lan) -> Iterator[Contradiction]:
    yield from forward.contradictions(card.forward, lan.address, hands_out=lan.leases is not None)
    yield from bypass.overlapping("lan.not_bonded_ports", lan.not_bonded_ports, Ports.holds)
    for name, wan in card.wan.items():
        if wan.may_be(lan.interface):
            yield f"wan.{name}.interface", wan.interface, f"one that lan.interface, {lan.interface!r}, does not fit"
        below = {wan.interface if wan.vlan else None, *(each.below for each in vlans.named([wan.interface]))}
        if card.access_point is not None and lan.interface in below:
            accepted = "another one than lan.interface, which is a port of a bridge with an access point"
            yield f"wan.{name}.interface", wan.interface, accepted
    if card.gateway is not None and card.gateway.address in lan.address.network:
        yield "gateway", str(card.gateway), f"an address that is not in the LAN, {lan.address.network}"
    for each in card.enrolment:
        if each.addresses.overlaps(lan.address.network) or each.inside in lan.address.network:
            accepted = f"a network without {each.inside} and {each.addresses}, which are inside the tunnels"
            yield "lan.address", str(lan.address), accepted
    if lan.interface in card.network:
        accepted = "no such table: the LAN's address stands in [lan]"
        yield f"network.{lan.interface}", "(given)", accepted
    for name, network in card.network.items():
        if any(address.network.overlaps(lan.address.network) for address in network.address if address.version == 4):
            taken = ", ".join(map(str, network.address))
            yield "lan.address", str(lan.address), f"a network that network.{name} is not in, which has {taken}"
