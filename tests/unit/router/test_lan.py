"""What the daemon does about IPv6 in the LAN, as scripts: what the kernel says, and the commands that follow."""

from dataclasses import replace

import pytest

from router.state.reconciler import Reconciler
from tests.unit.router.enrolled import FIRST, SECOND, Script
from tests.unit.router.house import DSL, LAN, LTE, SETTINGS, Plug, after, settings
from tests.unit.router.house import Script as Reconciling
from tests.unit.router.test_lan_prefixes import BOTH as DELEGATED
from tributary.kernel.state import Interface
from tributary.settings.errors import CommandError
from tributary.settings.files import check
from tributary.wireguard.enrolment import Enrolment, table, text

MORE = 'lan = "end0"\n'
HERE = check(table(FIRST) | {"prefix": "2001:db8:1:1::/64"}, Enrolment, "test")
THERE = check(table(SECOND) | {"gateway": "203.0.113.9", "prefix": "2001:db8:2:7::/64"}, Enrolment, "test")
RENEWED = check(table(HERE) | {"prefix": "2001:db8:1:2::/64"}, Enrolment, "test")
SIX = (
    "ip -6 route del default via 2001:db8:2::1 dev usb0 onlink metric 2 proto 84 src 2001:db8:2::2",
    "ip -6 route add default dev tb0 metric 1 proto 84 src 2001:db8:1:1::2",
    "ip address add 2001:db8:1:1::1/64 dev end0",
)
"""What follows of the gateway's first answer."""


def test_the_lan_has_its_way_before_the_gateway_answers_and_an_address_from_then_on() -> None:
    script = Script(HERE, more=MORE)
    said = script.now(DSL, LTE, LAN)
    assert "ip -6 route add 2001:db8:1:1::/64 dev end0 metric 9 proto 84" in said
    assert "ip -6 rule add priority 8400 from 2001:db8:1:1::2 lookup 8410 protocol 84" in said
    assert [each for each in said if "ip address replace 2001:db8:1:1::2/128 dev tb0" in each]
    assert not [each for each in said if "address add" in each]
    said = script.answered("dsl")
    assert [each for each in said if each in SIX] == list(SIX)
    assert script.reconcile() == []


def test_while_the_gateway_is_away_the_address_is_gone_and_the_way_to_the_lan_stays() -> None:
    script = Script(HERE, more=MORE)
    script.now(DSL, LTE, LAN)
    script.answered("dsl", "lte")
    said = script.failed("dsl", "lte")
    assert "ip address del 2001:db8:1:1::1/64 dev end0" in said
    assert "ip -6 route del default dev tb0 metric 1 proto 84 src 2001:db8:1:1::2" in said
    assert "ip -6 route add default via 2001:db8:2::1 dev usb0 onlink metric 2 proto 84 src 2001:db8:2::2" in said
    assert not [each for each in said if "2001:db8:1:1::/64" in each]
    assert set(SIX) <= set(script.answered("lte"))


@pytest.mark.parametrize("answers", [True, False])
def test_after_a_restart_all_leads_to_the_gateway_as_before_until_its_probes_say_otherwise(answers: bool) -> None:
    script = Script(HERE, more=MORE)
    script.now(DSL, LTE, LAN)
    script.answered("dsl", "lte")
    script.reconciler = Reconciler(script.reconciler.settings, script.reconciler.record)
    assert {each.split()[0] for each in script.reconcile()} == {"wg"}
    script.reconciler.health.record("dsl", None)
    assert script.reconcile() == []
    if answers:
        assert script.answered("dsl", "lte") == []
    else:
        said = script.failed("dsl", "lte")
        assert "ip route del default dev tb0 metric 1 proto 84 src 10.84.0.17" in said
        assert "ip address del 2001:db8:1:1::1/64 dev end0" in said
        script.reconciler = Reconciler(script.reconciler.settings, script.reconciler.record)
        assert not [each for each in script.reconcile() if "default" in each]


def test_after_a_restart_with_another_gateway_nothing_leads_to_it_before_it_answers() -> None:
    script = Script(HERE, THERE, more=MORE)
    script.now(DSL, LTE, LAN)
    script.answered("dsl", "lte")
    script.reconciler = Reconciler(Script(THERE, more=MORE).reconciler.settings, script.reconciler.record)
    said = script.reconcile()
    assert "ip route del default dev tb0 metric 1 proto 84 src 10.84.0.17" in said
    assert not [each for each in said if "add default dev tb0 metric" in each]


def test_the_next_gateway_s_prefix_takes_the_place_of_the_first_one_s() -> None:
    script = Script(HERE, THERE, more=MORE)
    script.now(DSL, LTE, LAN)
    script.answered("dsl", "lte")
    script.failed("dsl", "lte")
    assert script.reconciler.fail_over(0.0)
    assert not [each for each in script.reconcile() if "address add" in each]
    assert "ip address add 2001:db8:2:7::1/64 dev end0" in script.answered("dsl")
    standing = {str(each.address) for each in script.kernel.addresses if each.interface == LAN.interface.index}
    assert standing == {"2001:db8:2:7::1"}
    ways = {str(each.destination) for each in script.kernel.routes if each.interface == LAN.interface.index}
    assert ways == {"2001:db8:1:1::/64", "2001:db8:2:7::/64"}


@pytest.mark.parametrize(
    ("enrolment", "more", "lan"),
    [(FIRST, MORE, LAN), (HERE, "", LAN), (HERE, MORE, replace(LAN, interface=Interface(4, "end0", is_up=False)))],
    ids=["no prefix", "no LAN", "a LAN that is off"],
)
def test_without_a_prefix_or_a_lan_there_is_no_address(enrolment: Enrolment, more: str, lan: Plug) -> None:
    script = Script(enrolment, more=more)
    said = [*script.now(DSL, LTE, lan), *script.answered("dsl", "lte")]
    assert not [each for each in said if "end0" in each]


def test_a_link_whose_packets_are_too_small_for_ipv6_does_not_make_the_tunnel_s_so() -> None:
    small = replace(DSL, interface=replace(DSL.interface, mtu=1300))
    said = Script(HERE, more=MORE).now(small, LAN)
    sizes = {each.split()[2]: each.split("mtu ")[1].split()[0] for each in said if each.startswith("wg set")}
    assert sizes == {"tb0": "1280", "tb1": "1220"}


@pytest.mark.parametrize("is_restarted", [False, True], ids=["reload", "restart"])
@pytest.mark.parametrize(
    ("before", "now"),
    [
        (MORE + SETTINGS + text(HERE), MORE + SETTINGS + text(RENEWED)),
        (MORE + 'lan_ipv6 = "link"\n' + SETTINGS, MORE + SETTINGS + text(RENEWED)),
        (MORE + 'lan_ipv6 = "link"\n' + SETTINGS, MORE + SETTINGS),
        (MORE + SETTINGS + text(HERE), SETTINGS + text(HERE)),
        (MORE + SETTINGS + text(HERE), 'lan = "end1"\n' + SETTINGS + text(HERE)),
    ],
    ids=["another enrolment", "from link to gateway", "to none", "no LAN", "another LAN"],
)
def test_the_address_by_earlier_settings_is_taken_away(before: str, now: str, is_restarted: bool) -> None:
    script = Reconciling(text=before)
    script.now(*DELEGATED)
    script.answered("dsl", "lte")
    lan = [each for each in script.kernel.addresses if each.interface == LAN.interface.index]
    assert len(lan) == 1
    if is_restarted:
        script.reconciler = Reconciler(settings(now), script.reconciler.record)
    else:
        script.reconciler.change_settings(settings(now))
    assert f"ip address del {lan[0].address}/64 dev end0" in script.reconcile()
    assert lan[0] not in script.kernel.addresses


def test_all_of_it_is_taken_away() -> None:
    script = Script(HERE, more=MORE)
    script.now(DSL, LTE, LAN)
    script.answered("dsl")
    before = {each.address for each in script.kernel.addresses}
    for operation in script.reconciler.removal(script.kernel):
        script.kernel = after(script.kernel, [operation])
    assert {str(each) for each in before - {each.address for each in script.kernel.addresses}} == {
        "2001:db8:1:1::1",
        *("10.84.0.17", "10.84.0.18", "10.84.0.19", "2001:db8:1:1::2"),  # with the tunnels
    }
    assert not [each for each in script.kernel.routes if each.interface == LAN.interface.index]


def test_the_name_of_the_lan_s_interface_is_checked() -> None:
    with pytest.raises(CommandError, match="lan = 'a b'"):
        settings('lan = "a b"\n' + SETTINGS)
