from ipaddress import ip_address

import pytest

from command.link import lines
from router import api
from router.tunnels.gateways import FailbackMonitor
from tests.unit.router.enrolled import FIRST, SECOND, Script
from tests.unit.router.house import DSL, LTE, SETTINGS, Plug, settings
from tributary.kernel.state import Interface
from tributary.settings.hosts import Target
from tributary.settings.probing import Probe


def test_a_name_is_looked_up_and_the_tunnels_wait_for_it() -> None:
    script = Script(SECOND)
    assert script.reconciler.gateways.names == {"gateway.example.net"}
    assert [each for each in script.now(DSL) if "(unknown yet)" in each]
    assert script.resolve("2001:db8::9", "203.0.113.9")
    # The link has no IPv6.
    assert [each for each in script.reconcile() if "endpoint 203.0.113.9:7;" in each]
    assert not script.resolve("203.0.113.9", "2001:db8::9")
    assert script.reconcile() == []


def test_a_gateway_that_is_silent_gives_way_to_the_next_and_the_last_to_the_first() -> None:
    script = Script(FIRST, SECOND)
    script.resolve("203.0.113.9")
    script.now(DSL, LTE)
    script.answered("dsl", "lte")
    assert not script.reconciler.fail_over(0.0)
    script.failed("dsl")
    assert not script.reconciler.fail_over(0.0)
    said = script.fall_silent("dsl", "lte")
    assert [each for each in said if "endpoint 203.0.113.9:7; ip address replace 10.84.0.34/32 dev tb1" in each]
    assert "ip mptcp endpoint add 10.84.0.34 dev tb1 id 130 subflow" in said
    script.fall_silent("dsl", "lte")
    assert script.reconciler.gateways.address == "203.0.113.5:51840"


def test_the_first_gateway_is_asked_by_a_tunnel_of_its_own_and_gone_back_to_when_it_has_answered_for_long() -> None:
    script = Script(SECOND, FIRST)
    script.resolve("203.0.113.9")
    assert not [each for each in script.now(DSL, LTE) if "tb9" in each]
    said = [each for each in script.fall_silent("dsl", "lte") if "tb9" in each]
    assert said[0] == "ip link add tb9 type wireguard"
    assert "fwmark 0x8410 peer ... endpoint 203.0.113.9:7; ip address replace 10.84.0.33/32 dev tb9" in said[1]
    script.answered("dsl")
    assert script.reconciler.failback_path == ("tb9", ip_address("10.84.0.33"), Target(SECOND.inside, 5124))
    gateways = script.reconciler.gateways
    gateways.failback.record(True, gateways.index, 10.0)
    assert not script.reconciler.fail_back(309.0)
    assert script.reconciler.fail_back(310.0) and gateways.index == 0
    said = script.reconcile()
    assert "ip link delete dev tb9" in said and script.reconciler.failback_path is None
    assert [each for each in said if "endpoint 203.0.113.9:7; ip address replace 10.84.0.34/32 dev tb1" in each]
    # Nothing leaves outside of the tunnels while the gateway that has just answered is asked by each link.
    assert script.reconciler.gateway_tunnels and script.reconciler.gateway_tunnels.answers
    assert script.reconciler.health.start_due(400.0) == ["dsl", "lte"]


def test_a_tunnel_that_is_gone_is_forgotten_and_another_interface_of_its_name_is_left_alone() -> None:
    script = Script(SECOND, FIRST)
    script.now(DSL, LTE)
    script.fall_silent("dsl", "lte")
    assert "tb9" in script.reconciler.record.tunnels
    script.reconciler.change_settings(Script(FIRST).reconciler.settings)
    assert "ip link delete dev tb9" in script.reconcile()
    assert script.reconciler.record.tunnels == {"tb0", "tb1", "tb2"}
    somebody_elses = Plug(Interface(9, "tb9"))
    assert script.now(DSL, LTE, somebody_elses) == []


def test_a_reload_keeps_what_is_known_of_gateways_that_stay_and_asks_them_anew() -> None:
    script = Script(FIRST, SECOND)
    reconciler = script.reconciler
    script.resolve("203.0.113.9")
    script.now(DSL, LTE)
    script.fall_silent("dsl", "lte")
    script.answered("lte")
    script.failed("dsl")
    reconciler.health.start_due(1.0)
    reconciler.change_settings(reconciler.settings)
    said = script.reconcile()
    # Only what the tunnels' interfaces have is given again.
    assert {each.split()[0] for each in said} == {"wg"} and "endpoint 203.0.113.9:7;" in " ".join(said)
    assert reconciler.gateways.index == 1 and reconciler.health.down == {"dsl"}
    assert reconciler.gateway_tunnels and reconciler.gateway_tunnels.answers
    assert reconciler.health.start_due(1.0) == ["dsl", "lte"]


def test_a_restart_goes_on_with_the_gateway_that_was_used() -> None:
    script = Script(FIRST, SECOND)
    script.now(DSL)
    script.fall_silent("dsl")
    assert Script(FIRST, SECOND, memory=script.reconciler.record).reconciler.gateways.index == 1
    assert Script(FIRST, memory=script.reconciler.record).reconciler.gateways.index == 0


def test_a_reload_without_the_gateway_that_is_used_begins_with_the_first() -> None:
    script = Script(FIRST, SECOND)
    script.now(DSL)
    script.fall_silent("dsl")
    script.reconciler.change_settings(Script(FIRST).reconciler.settings)
    assert script.reconciler.gateways.address == "203.0.113.5:51840" and not script.reconciler.health.answers


def test_status_says_in_words_whether_the_gateway_answers() -> None:
    script = Script(SECOND)
    script.now(DSL)

    def said() -> str:
        answer = api.status(script.reconciler, 1.0, 1.0)
        shown = ({**each, "shaper": None, "set": {}} for each in answer["wan"])
        facts = (line.strip() for each in shown for line in lines(each, 200))
        return " ".join((*(each["text"] for each in answer["gateway"]["diagnosis"]), *facts))

    assert "The gateway's name gateway.example.net:7 is not found" in said()
    script.resolve("203.0.113.9")
    script.reconcile()
    assert "The gateway gateway.example.net:7 is being tried." in said()
    script.failed("dsl")
    assert "The gateway gateway.example.net:7 does not answer" in said()
    script.answered("dsl")
    assert "tunnel tb1 from 10.84.0.34" in said()
    assert "endpoint 128 for 10.84.0.34" in said()


def outside(script: Script, tunnel: str) -> str | None:
    """Where a tunnel leads to."""
    [peer] = script.reconciler.gateways.applied[tunnel].interface.peers
    return peer.endpoint


FOUR, SIX = "203.0.113.7:7", "[2001:db8::7]:7"
BOTH = ("2001:db8::7", "203.0.113.7")


def test_a_gateway_with_addresses_of_both_ip_versions_is_tried_by_the_other_where_one_is_silent() -> None:
    """Its name has A and AAAA, and UDP over IPv6 is dropped on the way."""
    script = Script(SECOND)
    script.resolve(*BOTH)
    script.now(LTE)
    assert outside(script, "tb2") == outside(script, "tb0") == SIX
    for failures, wanted in enumerate([SIX, SIX, FOUR, FOUR, FOUR, SIX, SIX], start=1):
        script.reconciler.health.record("lte", None)
        script.reconcile()
        assert outside(script, "tb2") == outside(script, "tb0") == wanted, failures
    for _ in range(5):
        script.reconciler.health.record("lte", None)
        script.reconcile()
    assert outside(script, "tb2") == FOUR
    script.answered("lte")
    assert outside(script, "tb2") == FOUR
    script.failed("lte")
    assert outside(script, "tb2") == SIX


def test_a_link_that_leads_out_by_one_ip_version_alone_goes_on_asking_by_that() -> None:
    script = Script(SECOND)
    script.resolve(*BOTH)
    script.now(DSL)
    for _ in range(4):
        script.failed("dsl")
        assert outside(script, "tb1") == FOUR


def test_an_earlier_gateway_is_asked_by_its_other_address_too_and_links_go_there_by_that() -> None:
    script = Script(SECOND, FIRST)
    script.resolve(*BOTH)
    script.now(LTE)
    assert script.reconciler.fail_over(0.0) is False
    script.fall_silent("lte", now=10.0)
    assert outside(script, "tb9") == SIX
    scout = script.reconciler.gateways.failback
    for now in (20.0, 30.0, 40.0):
        scout.record(False, 1, now)
    script.reconcile()
    assert outside(script, "tb9") == FOUR
    for now in (50.0, 50.0 + scout.required):
        scout.record(True, 1, now)
    assert script.reconciler.fail_back(50.0 + scout.required)
    script.reconcile()
    assert outside(script, "tb2") == FOUR


@pytest.fixture
def made() -> FailbackMonitor:
    return FailbackMonitor(Probe(), settings(SETTINGS + '[tunnels]\nreturn_after = "60s"').tunnels)


def test_an_earlier_gateway_is_asked_as_often_as_links_are(made: FailbackMonitor) -> None:
    assert made.start_due(100.0) and not made.start_due(109.9) and made.start_due(110.0)


def test_an_earlier_gateway_must_answer_without_a_gap(made: FailbackMonitor) -> None:
    assert not made.is_stable(0.0)
    made.record(True, 1, 100.0)
    made.record(True, 1, 150.0)
    made.record(False, 1, 155.0)
    assert not made.is_stable(170.0)
    made.record(True, 1, 180.0)
    assert not made.is_stable(239.0) and made.is_stable(240.0)


def test_one_that_fails_soon_after_a_return_must_answer_for_longer_the_next_time(made: FailbackMonitor) -> None:
    needed = []
    for number in range(6):
        made.on_fail_over(1000.0 * number + 500.0)
        needed.append(made.required)
        made.on_fail_back(1000.0 * number + 900.0)
    assert needed == [60.0, 120.0, 240.0, 480.0, 960.0, 960.0]
    made.on_fail_over(20000.0)
    assert made.required == 60.0


def test_when_the_first_stays_silent_the_second_is_asked_while_the_third_is_used(made: FailbackMonitor) -> None:
    for _ in range(3):
        assert made.index == 0
        made.record(False, 2, 100.0)
    assert made.index == 1 and made.start_due(100.0)
    made.record(True, 2, 101.0)
    assert made.is_stable(161.0) and made.index == 1
    for _ in range(3):
        made.record(False, 2, 170.0)
    assert made.index == 0


def test_what_the_last_one_answered_does_not_count_for_the_next(made: FailbackMonitor) -> None:
    made.record(True, 1, 100.0)
    made.on_fail_back(200.0)
    assert not made.is_stable(300.0)
