"""What the daemon does about tunnels, as scripts: what the kernel says, and the commands that follow."""

from dataclasses import replace
from ipaddress import IPv4Network, ip_address
from typing import Any

import pytest

from router.identifiers import FIRST_METRIC, MAIN, PROTOCOL, is_owned_route
from router.state.plan import Add, Change, TunnelInterface
from tests.unit.router.enrolled import FIRST, Script, answering
from tests.unit.router.house import DSL, LTE, SETTINGS, Plug, cut, house, settings
from tests.unit.router.house import Script as Reconciling
from tributary.kernel.state import Interface, Route
from tributary.settings.errors import CommandError
from tributary.wireguard.enrolment import text


@pytest.fixture
def both() -> Script:
    script = Script()
    script.now(DSL, LTE)
    return script


@pytest.fixture
def answered() -> Script:
    return answering()


def test_each_link_gets_a_tunnel_with_a_mark_and_what_a_tunnel_sends_leaves_by_no_other_link() -> None:
    said = Script().now(DSL)
    assert [each for each in said if "link add" in each] == [
        f"ip link add tb{place} type wireguard" for place in range(3)
    ]
    assert {
        "ip route add default via 192.168.1.1 dev eth0 onlink table 8400 metric 1 proto 84",
        "ip rule add priority 8391 fwmark 0x8410 lookup 8400 protocol 84",
        "ip rule add priority 8391 fwmark 0x8411 lookup 8401 protocol 84",
        "ip rule add priority 8392 fwmark 0x8410/0xfffffff0 unreachable protocol 84",
        "wg set tb1 fwmark 0x8411 peer ... endpoint 203.0.113.5:51840;"
        " ip address replace 10.84.0.18/32 dev tb1; ip link set tb1 mtu 1420 up",
        "ip route add default dev tb1 table 8411 metric 1 proto 84",
        "ip rule add priority 8400 from 10.84.0.18 lookup 8411 protocol 84",
        "ip route add 10.84.0.1/32 dev tb1 metric 1 proto 84 src 10.84.0.18",
        "ip route add unreachable 10.84.0.1/32 metric 9 proto 84",
        "ip mptcp endpoint add 10.84.0.18 dev tb1 id 128 subflow",
    } <= set(said)
    assert not [each for each in said if "endpoint add 192.168.1.2" in each]
    rules = [number for number, each in enumerate(said) if "fwmark" in each and "rule" in each]
    sent = [number for number, each in enumerate(said) if each.startswith("wg set")]
    assert max(rules) < min(sent)


def test_everything_else_goes_into_its_tunnel_once_the_gateway_answers(both: Script) -> None:
    assert both.answered("lte") == [
        "ip route del default via 10.64.0.1 dev usb0 onlink metric 2 proto 84 src 10.64.0.2",
        "ip route del default via 192.168.1.1 dev eth0 onlink metric 1 proto 84 src 192.168.1.2",
        "ip route add default dev tb0 metric 1 proto 84 src 10.84.0.17",
    ]
    both.answered("dsl", "lte")
    back = both.failed("dsl", "lte")
    assert "ip route del default dev tb0 metric 1 proto 84 src 10.84.0.17" in back
    assert "ip route add default via 192.168.1.1 dev eth0 onlink metric 1 proto 84 src 192.168.1.2" in back


def test_a_link_by_which_the_gateway_does_not_answer_keeps_its_tunnel_for_the_probes(answered: Script) -> None:
    said = answered.failed("dsl")
    assert said[0] == "ip mptcp endpoint delete id 128"
    assert "ip route del 10.84.0.1/32 dev tb1 metric 1 proto 84 src 10.84.0.18" in said
    assert "ip route del default via 192.168.1.1 dev eth0 onlink table 8400 metric 1 proto 84" in said
    assert not [each for each in said if "table 8411" in each or "table 8401" in each]
    # It leaves by the best link that works.
    assert [each for each in said if each.startswith("wg set tb0")]


def test_the_tunnel_for_everything_else_is_set_again_when_the_best_link_has_changed(both: Script) -> None:
    assert both.reconcile() == []
    said = both.now(cut(DSL), LTE)
    assert [each.split()[2] for each in said if each.startswith("wg set")] == ["tb0"]


def test_another_address_of_a_link_sets_its_tunnel_again_and_leaves_its_endpoint_alone(both: Script) -> None:
    said = both.now(replace(DSL, addresses=("192.168.1.77/24",)), LTE)
    assert [each.split()[2] for each in said if each.startswith("wg set")] == ["tb0", "tb1"]
    assert not [each for each in said if "mptcp" in each]


def test_packets_are_as_large_as_the_link_lets_them() -> None:
    pppoe = replace(DSL, interface=Interface(2, "eth0", mtu=1492))
    said = Script().now(pppoe, LTE)
    sizes = {each.split()[2]: each.split("mtu ")[1].split()[0] for each in said if each.startswith("wg set")}
    assert sizes == {"tb0": "1412", "tb1": "1412", "tb2": "1420"}


def test_a_step_that_failed_is_tried_again() -> None:
    script = Script()
    script.now(DSL)
    assert script.reconcile() == []
    script.reconciler.on_failure(Change(script.reconciler.gateways.applied["tb1"]))
    assert [each.split()[2] for each in script.reconcile()] == ["tb1"]


def test_a_tunnel_that_stays_silent_is_configured_again_in_ever_longer_intervals(answered: Script) -> None:
    """Another program may have removed its peer, which no snapshot shows. At first others wait for their routes."""
    said = [{each.split()[2] for each in answered.failed("lte") if each.startswith("wg set")} for _ in range(8)]
    assert ["tb2" in each for each in said] == [number in (2, 4, 8) for number in range(1, 9)]
    assert "tb1" not in set.union(*said)


def test_what_is_no_longer_sure_of_a_tunnel_is_configured_again(answered: Script) -> None:
    answered.reconciler.forget_configuration("tb0")
    assert [each.split()[2] for each in answered.reconcile()] == ["tb0"]


@pytest.mark.parametrize(
    "change", [{"is_up": False}, {"mtu": 9000}, {}], ids=["set down", "mtu", "without its address"]
)
def test_a_tunnel_that_another_program_has_changed_is_set_again(answered: Script, change: dict[str, Any]) -> None:
    kernel = answered.kernel
    (tunnel,) = [each for each in kernel.interfaces if each.name == "tb1"]
    if change:
        others = (replace(each, **change) if each == tunnel else each for each in kernel.interfaces)
        answered.kernel = replace(kernel, interfaces=tuple(others))
    else:
        kept = (each for each in kernel.addresses if each.interface != tunnel.index)
        answered.kernel = replace(kernel, addresses=tuple(kept))
    (said,) = answered.reconcile()
    assert said.startswith("wg set tb1") and "ip address replace 10.84.0.18/32 dev tb1; ip link set tb1" in said


def test_all_is_taken_away_and_other_peoples_interfaces_are_not() -> None:
    script = Script(more="bypass = true\n")
    script.now(DSL, LTE, Plug(Interface(9, "wg0")))
    script.remove()
    assert {interface.name for interface in script.kernel.interfaces} == {"lo", "eth0", "usb0", "wg0"}
    assert not script.kernel.rules and not script.kernel.endpoints


def test_an_interface_of_somebody_elses_and_a_tunnel_that_could_not_be_made_are_not_taken_for_ours() -> None:
    script = Script()
    said = script.now(DSL, LTE, Plug(Interface(9, "tb0")))
    assert script.reconciler.names_taken == {"tb0"}
    assert not [each for each in said + script.answered("dsl", "lte") if "tb0" in each]
    assert "tb0" not in script.reconciler.record.tunnels and "ip link add tb1 type wireguard" in said
    removed = script.remove()
    assert {"ip link delete dev tb1", "ip link delete dev tb2"} <= set(removed)
    assert "ip link delete dev tb0" not in removed
    script = Script()
    assert Add(TunnelInterface("tb0")) in script.reconciler.reconcile(house(DSL), 0, 0).operations
    script.reconciler.on_failure(Add(TunnelInterface("tb0")))
    assert script.reconciler.record.tunnels == {"tb1", "tb2"}


def test_by_pass_lists_have_rules_for_each_link_and_the_best_and_answers_leave_by_the_tunnel_or_not_at_all() -> None:
    said = Reconciling(house(DSL, LTE), "bypass = true\n" + SETTINGS).step()
    assert {
        "ip rule add priority 8393 fwmark 0x8400 lookup 8400 protocol 84",
        "ip rule add priority 8393 fwmark 0x8402 lookup 8402 protocol 84",
        "ip rule add priority 8394 fwmark 0x8400/0xfffffff0 lookup 8400 protocol 84",
        "ip route add default via 10.64.0.1 dev usb0 onlink table 8400 metric 2 proto 84",
        "ip mptcp endpoint add 192.168.1.2 dev eth0 id 128 subflow",
    } <= set(said)
    script = Script(more="bypass = true\n")
    said = script.now(DSL)
    assert "ip rule add priority 8393 fwmark 0x8420 lookup 8410 protocol 84" in said
    assert "ip rule add priority 8394 fwmark 0x8420 unreachable protocol 84" in said


@pytest.mark.parametrize("more", ['[tunnels]\nprefix = "tunnel-interface"', '[tunnels]\nkeepalive = "1ms"'])
def test_settings_of_tunnels_are_checked(more: str) -> None:
    with pytest.raises(CommandError, match="tunnels"):
        settings(SETTINGS + more)


def test_a_tunnels_name_is_no_links_and_not_the_lans() -> None:
    for more in ('lan = "tb1"\n', '[tunnels]\nprefix = "eth"\n'):
        with pytest.raises(CommandError, match=r"tunnels.prefix: .* is an interface of wan or lan"):
            settings(more + SETTINGS + text(FIRST))
    settings('lan = "tb1"\n' + SETTINGS)


@pytest.mark.parametrize("target", ["203.0.113.5:5124", "[2001:db8::5]:5124"])
def test_with_tunnels_nothing_but_the_gateways_inside_can_be_probed(target: str) -> None:
    with pytest.raises(CommandError, match="inside address, since tunnels lead nowhere else"):
        settings(SETTINGS + f'[probe]\ntarget = "{target}"\n' + text(FIRST))
    settings(SETTINGS + f'[probe]\ntarget = "{FIRST.inside}:80"\n' + text(FIRST))


def test_what_by_passes_to_a_link_that_does_not_answer_leaves_by_the_best() -> None:
    script = Reconciling(text="bypass = true\n" + SETTINGS + '[probe]\ntarget = "203.0.113.5:5124"')
    script.now(DSL, LTE)
    script.answered("lte")
    assert "ip rule del priority 8393 fwmark 0x8401 lookup 8401 protocol 84" in script.failed("dsl")


def test_a_link_that_is_silent_in_a_conversation_is_left_by_everything_else_and_by_no_subflow(answered: Script) -> None:
    answered.reconciler.health.recheck_all()
    assert answered.reconciler.health.start_due(50.0) == ["dsl", "lte"]
    assert answered.reconciler.health.timeout("dsl") < 1
    answered.reconciler.health.record("dsl", None)
    # The gateway itself may be away: nothing is left before it answers by another link.
    assert answered.reconcile() == []
    said = answered.answered("lte")
    assert "ip route del default via 192.168.1.1 dev eth0 onlink table 8400 metric 1 proto 84" in said
    assert [each.split()[2] for each in said if each.startswith("wg set")] == ["tb0"]
    assert answered.reconciler.health.timeout("dsl") > 1
    best = [route for route in answered.kernel.routes if route.table == 8400 and route.destination.version == 4]
    assert [route.interface for route in best] == [LTE.interface.index]
    assert {str(each.address) for each in answered.kernel.endpoints.values()} == {"10.84.0.18", "10.84.0.19"}
    back = answered.answered("dsl")
    assert "ip route add default via 192.168.1.1 dev eth0 onlink table 8400 metric 1 proto 84" in back
    assert [each.split()[2] for each in back if each.startswith("wg set")] == ["tb0"]


@pytest.mark.parametrize("rtt", [0.02, None], ids=["all answer", "none answers"])
def test_a_doubt_that_all_links_answer_alike_changes_nothing(answered: Script, rtt: float | None) -> None:
    answered.reconciler.health.recheck_all()
    for link in ("dsl", "lte"):
        answered.reconciler.health.record(link, rtt)
    assert answered.reconcile() == []


def test_the_tunnel_of_a_metered_link_is_kept_open_less_often() -> None:
    script = Script()
    metered = settings(SETTINGS + "metered = true\n" + text(FIRST))
    script.reconciler.change_settings(metered)
    script.now(DSL, LTE)
    kept = {name: config.interface.peers[0].keepalive for name, config in script.reconciler.gateways.applied.items()}
    assert kept == {"tb0": 20, "tb1": 20, "tb2": 60}


def test_routes_of_others_with_our_protocol_and_no_metric_are_not_ours() -> None:
    inside = Route(MAIN, IPv4Network("10.84.0.1/32"), None, 7, FIRST_METRIC, PROTOCOL)
    assert is_owned_route(inside)
    assert not is_owned_route(replace(inside, destination=IPv4Network("198.51.100.0/24")))
    assert not is_owned_route(replace(inside, gateway=ip_address("10.1.0.1")))
