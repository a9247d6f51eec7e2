import pytest

from router.probes.mptcp import AGAIN, SOON, Verdict, Verdicts, outside
from tests.unit.router.enrolled import Script, answering
from tests.unit.router.house import DSL, LTE, SETTINGS, settings


def ways(verdicts: Verdicts) -> dict[str, str]:
    return {
        name: f"{way.interface} {way.source} {way.target}"
        for name in sorted(verdicts.start_due(100.0))
        if (way := verdicts.paths.get(name))
    }


def test_inside_each_tunnel_the_converter_is_asked_if_it_answers_and_past_it_the_server_of_the_settings() -> None:
    assert ways(answering().reconciler.verdicts) == {
        "dsl": "tb1 10.84.0.18 10.84.0.1:5124",
        "lte": "tb2 10.84.0.19 10.84.0.1:5124",
    }
    both = answering('probe.mptcp_target = "198.51.100.7:443"\n').reconciler.verdicts
    assert ways(both)["lte outside"] == "usb0 10.64.0.2 198.51.100.7:443" and len(both.results) == 0
    made = Script()
    made.now(DSL)
    assert ways(made.reconciler.verdicts) == {}
    made = answering()
    made.reconciler.change_settings(settings(SETTINGS + '[probe]\ntarget = "203.0.113.5:5124"'))
    made.reconcile()
    assert ways(made.reconciler.verdicts) == {
        "dsl outside": "eth0 192.168.1.2 203.0.113.5:5124",
        "lte outside": "usb0 10.64.0.2 203.0.113.5:5124",
    }


@pytest.fixture
def verdicts() -> Verdicts:
    """Both links are asked."""
    made = answering().reconciler.verdicts
    assert made.start_due(100.0) == ["dsl", "lte"]
    return made


def test_a_connection_speaks_mptcp_or_plain_tcp(verdicts: Verdicts) -> None:
    assert not verdicts.on_mptcp("dsl", speaks=True, is_refused=False, now=100.1)
    assert not verdicts.on_mptcp("lte", speaks=False, is_refused=False, now=100.1)
    assert verdicts.results == {"dsl": Verdict.MULTIPATH, "lte": Verdict.PLAIN}
    assert verdicts.start_due(200.0) == [] and verdicts.next_due == 100.1 + AGAIN


def test_where_mptcp_gets_no_answer_and_plain_tcp_does_it_is_dropped(verdicts: Verdicts) -> None:
    assert verdicts.on_mptcp("dsl", speaks=None, is_refused=False, now=102.0)
    verdicts.on_plain_tcp("dsl", answered=True, now=102.1)
    assert verdicts.on_mptcp("lte", speaks=None, is_refused=False, now=102.0)
    verdicts.on_plain_tcp("lte", answered=False, now=104.0)
    assert verdicts.results == {"dsl": Verdict.DROPPED}
    assert verdicts.start_due(104.0 + SOON) == ["lte"]


def test_a_refusal_tells_nothing(verdicts: Verdicts) -> None:
    assert not verdicts.on_mptcp("dsl", speaks=None, is_refused=True, now=100.1)
    assert verdicts.results == {}


def test_what_comes_late_of_a_way_that_is_another_now_tells_nothing() -> None:
    made = answering('probe.mptcp_target = "198.51.100.7:443"\n')
    verdicts = made.reconciler.verdicts
    verdicts.start_due(100.0)
    made.now(LTE)
    assert not verdicts.on_mptcp(outside("dsl"), speaks=False, is_refused=False, now=101.0)
    assert verdicts.results == {}
