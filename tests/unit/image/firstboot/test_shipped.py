"""The card's file as the image has it: with every key, as a comment. And the order of the units beside it."""

import re
from pathlib import Path

import pytest

from image.firstboot import report
from image.firstboot.plan import plan
from image.firstboot.reading import read
from image.firstboot.settings import Card, Role
from tests.unit.image.firstboot.cards import lines
from tests.unit.image.firstboot.systems import SHIPPED, facts


def shipped(uncommented: bool) -> bytes:
    text = SHIPPED.read_text()
    return (re.sub(r"^# ", "", text, flags=re.MULTILINE) if uncommented else text).encode()


@pytest.mark.parametrize("role", Role)
def test_the_file_on_the_image_is_accepted_as_it_is_and_sets_nothing(role: Role) -> None:
    assert read(shipped(uncommented=False), role) == Card.model_validate({})


@pytest.mark.parametrize("role", Role)
def test_the_file_on_the_image_is_accepted_with_all_its_settings_on(role: Role) -> None:
    card = read(shipped(uncommented=True).replace(b'role = "router"', f'role = "{role}"'.encode()), Role.GATEWAY)
    assert card.role is role
    assert plan(card, facts(role))


def test_the_file_on_the_image_has_every_key() -> None:
    card = read(shipped(uncommented=True), Role.GATEWAY)
    assert card.model_fields_set == set(Card.model_fields)
    links = [card.wan["lte"], card.wan["fibre"].pppoe, card.wan["mobile"].modem]
    alone = (card.wifi, card.routers, card.access_point, card.lan, card.probe, card.tunnels, card.metrics)
    given = (*alone, *card.network.values(), *links, *card.bypass, *card.forward)
    missing = [set(type(each).model_fields) - each.model_fields_set for each in given if each is not None]
    assert set.union(*missing) == {"dhcp", "mac", "pppoe", "modem", "name", "vlan"}
    assert card.wan["cable"].vlan == 832


def test_what_the_other_role_has_is_checked_and_not_used() -> None:
    card = read(shipped(uncommented=True), Role.GATEWAY)
    assert "Not used, since this box is a router: client_networks, public_name, routers." in report.next_steps(
        card, facts(Role.ROUTER)
    )
    assert "wan.dsl.mac" in lines('[wan.dsl]\nmac = "x"', Role.GATEWAY)[0]


def test_the_file_on_the_image_fits_editors_and_screens() -> None:
    text = Path(SHIPPED).read_text()
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 120


def test_settings_are_applied_before_whoever_reads_them_starts() -> None:
    unit = (SHIPPED.parent / "tributary-firstboot.service").read_text()
    before = " ".join(re.findall(r"^Before=(.*)$", unit, re.MULTILINE)).split()
    assert {"network-pre.target", "systemd-networkd.service", "ssh.service", "getty-pre.target"} <= set(before)
    assert {
        "dnsmasq.service",
        *(f"tributary-{part}.service" for part in ("lan", "router", "converter", "squid")),
    } <= set(before)


def test_the_rules_of_the_lan_are_there_before_dnsmasq_fills_their_sets_and_are_replaced_in_one_piece() -> None:
    unit = (SHIPPED.parent / "tributary-lan.service").read_text()
    assert "dnsmasq.service" in re.findall(r"^Before=(.*)$", unit, re.MULTILINE)
    loaded = re.findall(r"^ExecStart=(.*nft.*)$", unit, re.MULTILINE)
    assert re.findall(r"^ExecReload=(.*)$", unit, re.MULTILINE) == loaded
