import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.refusals import command_error
from tests.unit.prometheus import samples
from tests.unit.throttler.test_engine import FIRST, JOINED, SESSION, policy_of
from throttler.policy.decide import Matcher
from throttler.policy.model import with_rule
from throttler.policy.preview import preview
from throttler.policy.quotas import Quotas
from throttler.service.engine import Engine
from throttler.service.metrics import Exporter
from throttler.service.query import SessionQuery
from throttler.service.query import check as check_query
from throttler.service.report import EXPLAINED, MEASURED, SHOWN, Measured, Report, explain, measure, question
from throttler.service.reporter import BETWEEN, Reporter
from throttler.service.silence import Silence
from throttler.sources.limits import Count
from throttler.sources.packet_source import PacketSource
from throttler.sources.source import SourceKind
from tributary.api import documents
from tributary.kernel.htb import ClassStatistics
from tributary.mptcp import sockets
from tributary.mptcp.events import Ended, SessionClosed, SubflowEstablished
from tributary.mptcp.four_tuple import FourTuple
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import check
from tributary.settings.privacy import Privacy


@pytest.fixture
def engine() -> Engine:
    """With one session of two subflows, of which the first is throttled."""
    made = Engine(policy_of('path = "wired"\nrate = "5mbit"'), Quotas(), datetime.now)
    made.handle(SESSION, 0)
    return made


def of(engine: Engine, sent: Callable[[int], int] = lambda _: 0) -> Report:
    """A report whose classes, by minor number, have ``sent`` so many bytes."""
    snapshot = engine.snapshot()
    minors = [each.htb.minor for each in snapshot.classes.values()]
    measured = Measured({("eth0", minor): ClassStatistics(sent(minor), 1, 0, 0) for minor in minors}, {})
    file, none = Path("policy.toml"), frozenset[str]()
    return Report(snapshot, none, SourceKind.KERNEL, Counter(), {}, file, 1.0, measured, time.time_ns())


def test_a_policy_is_named_by_its_whole_path_since_the_daemon_may_have_been_started_elsewhere(engine: Engine) -> None:
    assert of(engine).status.policy == str(Path.cwd() / "policy.toml")


@pytest.mark.parametrize(
    "ends", [["00000007"], [FIRST.local_end, FIRST.remote_end], [FIRST.remote_end, FIRST.local_end]], ids=str
)
def test_a_session_or_a_subflow_is_found_by_its_name(engine: Engine, ends: list[str]) -> None:
    subflows = explain(question(engine, ends), "full")["subflows"]
    assert str(FIRST) in [one["subflow"] for one in subflows]
    assert len(subflows) == (2 if ends == ["00000007"] else 1)
    assert subflows[0]["rules"] == [{"rule": "rule", "applies": True, "reason": None}]


def test_an_ipv6_subflow_is_found_by_its_ends(engine: Engine) -> None:
    six = FourTuple("fd00::1", 3128, "2001:db8::2", 40003)
    engine.handle([SubflowEstablished(3, 9, six, "eth0")], 0)
    assert explain(question(engine, [six.local_end, six.remote_end]), "full")["subflows"][0]["token"] == "00000009"


@pytest.mark.parametrize("shared_by", ["subflow", "client", "session"])
@pytest.mark.parametrize(("privacy", "shown"), [("network", "10.0.1.0"), ("none", "hidden")])
def test_what_shows_no_addresses_of_clients_names_them_nowhere(privacy: Privacy, shown: str, shared_by: str) -> None:
    policy = policy_of(f'path = "wired"\nrate = "5mbit"\nshared_by = "{shared_by}"')
    other = policy.rules[0].model_copy(update={"name": "other", "clients": (ip_network("192.0.2.0/24"),)})
    policy = with_rule(policy.model_copy(update={"privacy": privacy}), other, last=False)
    engine = Engine(policy, Quotas(), datetime.now)
    engine.handle(SESSION, 0)
    status = of(engine).status
    assert status.privacy == privacy
    assert status.sessions[0].client == shown and status.sessions[0].subflows[0].remote.startswith(f"{shown}:")
    explained = explain(question(engine, ["00000007"]), privacy)
    touched = preview(Matcher(policy), policy, policy.rules[1], engine.sessions, frozenset({"rule"}))
    for text in (str(status), str(explained), touched.model_dump_json()):
        assert "10.0.1.2" not in text and "10.0.2.2" not in text
    assert f"client {shown} is not in" in str(explained) and shown in touched.model_dump_json()
    with pytest.raises(CommandError, match="accepted: the token of a session that"):
        question(engine, [FIRST.local_end, FIRST.remote_end], privacy)


@pytest.mark.parametrize(
    "ends",
    [
        *([], ["7"], ["00000008"], ["0x000007"], [FIRST.local_end], [7], {"00000007": 1}, None, "00000007"),
        [FIRST.local_end, FIRST.remote_end.replace("40001", "40002")],
        [FIRST.local_end, FIRST.remote_end, FIRST.local_end],
        ["10.0.1.1:99999999999", "10.0.1.2:1"],
    ],
    ids=str,
)
def test_what_names_nothing_is_refused(engine: Engine, ends: object) -> None:
    with command_error(Exit.USAGE, "accepted: the token of a session or both ends"):
        question(engine, ends)


def test_thousands_of_ends_are_refused_unlooked_at_and_are_not_sent_back(engine: Engine) -> None:
    """9,000 strings in one request, where a token or two ends are asked for."""
    with pytest.raises(CommandError) as caught:
        question(engine, [f"{number}" * 20 for number in range(9000)])
    assert len(str(caught.value)) < 500


def test_of_a_session_with_very_many_subflows_the_first_are_explained(engine: Engine) -> None:
    many = [FourTuple("10.0.1.1", 3128, "10.0.1.2", 1000 + number) for number in range(EXPLAINED + 10)]
    engine.handle([SubflowEstablished(1, 7, each, "eth0") for each in many], 0)
    assert len(explain(question(engine, ["00000007"]), "full")["subflows"]) == EXPLAINED


def test_the_sums_of_classes_do_not_leap_when_one_beyond_those_that_are_listed_moves_up(engine: Engine) -> None:
    """Above a thousand classes one goes; number 1,001, which now is listed, has long carried something."""
    ways = [FourTuple("10.0.1.1", 3128, f"10.{number // 200}.{number % 200}.9", 999) for number in range(SHOWN + 2)]
    engine.handle(
        [
            SubflowEstablished(1, 100 + token, FourTuple("10.0.1.1", 3128, way.remote, port), "eth0")
            for token, way in enumerate(ways)
            for port in (1, 2)
        ],
        0,
    )
    exporter, of_each = Exporter(), 50_000
    assert len(of(engine).status.classes) == SHOWN and of(engine).status.classes_total > 2 * SHOWN

    def total() -> float:
        report = of(engine, lambda _: of_each)
        page = exporter.page(report.totals, report.carried).decode()
        (line,) = [line for line in page.splitlines() if "class_sent_bytes_total{" in line]
        return float(line.split()[-1])

    before = total()
    assert before == of_each * of(engine).status.classes_total
    engine.handle([SessionClosed(2, 100 + token, Ended.CLOSED) for token in range(10)], 1)
    assert total() == before


def test_metrics_count_what_the_status_shows_without_its_documents(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 10,000 sessions they took four times as long as all else of a page."""
    report = of(engine)
    assert report.carried is None, "no socket was read"
    report = replace(report, measured=Measured(report.measured.classes, {FIRST: sockets.Traffic(7, 5, 0)}))
    shown = [(each.path, each.sent, each.received) for one in report.status.sessions for each in one.subflows]
    monkeypatch.setattr(documents, "Session", None)
    monkeypatch.setattr(documents, "Subflow", None)
    carried = list(report.carried or ())
    assert [each[1:] for each in carried] == shown and len(set(carried)) == 2
    page = samples(Exporter().page(report.totals, carried), "tributary_throttler")
    assert page["path_sent_bytes_total", ("wired",)] == 7 and page["path_received_bytes_total", ("wired",)] == 5


def test_any_of_ten_thousand_sessions_is_found(engine: Engine) -> None:
    names = [FourTuple("10.0.1.1", 3128, f"10.9.{number // 200}.{number % 200}", 1000) for number in range(10_000)]
    joins = (SubflowEstablished(1, 100 + number, name, "eth0", initial=True) for number, name in enumerate(names))
    engine.handle(joins, 0)
    engine.handle([SubflowEstablished(2, 100 + 9_500, FourTuple("10.0.1.1", 3128, "10.8.0.1", 1), "eth1")], 0)
    report = of(engine)

    def found(**query: object) -> tuple[int, list[str]]:
        answer = report.found(check(query, SessionQuery, where="sessions"))
        return answer.total, [session.token for session in answer.sessions]

    late = f"{100 + 9_500:08x}"
    assert found(limit=1) == (10_001, ["00000007"])
    assert found(token=late) == found(clients=["10.9.47.100/32"]) == (1, [late])
    assert found(path="wireless") == found(throttled=True, rule="rule") == (2, ["00000007", late])
    assert found(path="nowhere") == found(token="7") == found(rule="x") == (0, [])
    assert found(sort="client", descending=True, limit=1) == (10_001, [f"{100 + 9_999:08x}"])
    assert found(clients=["10.9.0.0/16"], offset=9_999) == (10_000, [f"{100 + 9_999:08x}"])
    for wrong in ({"limit": 1001}, {"sort": "x"}, {"clients": ["x"]}, {"offset": -1}, {"x": 1}):
        with pytest.raises(CommandError, match="accepted"):
            found(**wrong)


@pytest.mark.parametrize(("privacy", "network"), [("network", "10.0.0.0/25"), ("none", "10.0.0.0/8")])
def test_a_filter_says_no_more_of_clients_than_is_shown(privacy: Privacy, network: str) -> None:
    with pytest.raises(CommandError, match="since privacy"):
        check_query(SessionQuery(clients=(ip_network(network),)), privacy)
    check_query(SessionQuery(clients=(ip_network(network),)), "full")
    check_query(SessionQuery(), privacy)


class Taking:
    """Counts the snapshots that are taken, in whose reports nothing is."""

    def __init__(self, engine: Engine) -> None:
        self.count = 0
        self.engine = engine

    def __call__(self) -> Callable[[], Report]:
        self.count += 1
        return lambda: of(self.engine)


def test_all_who_ask_within_a_quarter_of_a_second_get_one_snapshot_and_it_is_no_older_than_they(engine: Engine) -> None:
    taking = Taking(engine)
    with Reporter(taking) as reporter:
        first = reporter.ask(lambda _: b"first")
        reporter.turn()
        assert first.result(10) == b"first" and taking.count == 1
        later = [reporter.ask(lambda _: b"later") for _ in range(10)]
        reporter.turn()
        assert taking.count == 1 and 0 < reporter.deadline - time.monotonic() <= BETWEEN
        time.sleep(max(0.0, reporter.deadline - time.monotonic()))
        reporter.turn()
        assert [one.result(10) for one in later] == [b"later"] * 10 and taking.count == 2


def test_a_report_that_takes_long_delays_no_turn(engine: Engine) -> None:
    may_end = threading.Event()
    with Reporter(Taking(engine)) as reporter:
        slow = reporter.ask(lambda _: b"slow" if may_end.wait(10) else b"")
        reporter.turn()
        reporter.ask(lambda _: b"next")
        reporter.turn()
        assert not slow.done() and reporter.deadline == float("inf")
        may_end.set()
        assert slow.result(10) == b"slow"


def test_what_a_report_fails_with_is_returned_to_its_requests(engine: Engine) -> None:
    with Reporter(Taking(engine)) as reporter:
        failed = reporter.ask(lambda _: bytes(1 // 0))
        reporter.turn()
        with pytest.raises(ZeroDivisionError):
            failed.result(10)


def test_sockets_are_read_only_where_there_are_not_too_many_of_any_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {FIRST: sockets.Traffic(1, 2, 3)}
    monkeypatch.setattr(sockets, "traffic", lambda: found)
    monkeypatch.setattr(sockets, "count", lambda: MEASURED)
    assert measure(()).subflows == found
    monkeypatch.setattr(sockets, "count", lambda: MEASURED + 1)
    assert measure(()).subflows == {}


def test_a_counter_of_the_sniffer_is_there_before_its_first_event(engine: Engine) -> None:
    with PacketSource() as source:
        report = replace(of(engine), counts=source.counts())
        page = Exporter().page(report.totals, report.carried)
    shown = samples(page, "tributary_throttler")
    assert {name: shown.get(("events_total", (str(name),))) for name in Count} == dict.fromkeys(Count, 0)


LONGEST = 100


class World:
    """One rule, and a look at each ``now`` at what its classes, by minor number, have sent."""

    def __init__(self, shared_by: str) -> None:
        policy = policy_of(f'min_subflows = 1\nrate = "5mbit"\nshared_by = "{shared_by}"')
        self.engine = Engine(policy, Quotas(), datetime.now)
        self.silence = Silence()

    def come(self, name: FourTuple, now: int, token: int = 7, interface: str = "eth0") -> None:
        self.engine.handle([SubflowEstablished(now, token, name, interface)], 0)

    def look(self, now: int, sent: Mapping[int, int]) -> list[FourTuple]:
        made = of(self.engine, lambda minor: sent.get(minor, 0))
        return self.silence.look(replace(made, now=now), LONGEST)


def test_a_subflow_whose_class_stands_still_is_silent_when_it_has_for_long_enough() -> None:
    world = World("subflow")
    world.come(FIRST, 0)
    assert [world.look(now, {1: 500}) for now in (0, 50, 99)] == [[], [], []]
    assert world.look(100, {1: 500}) == [FIRST]
    assert world.look(150, {1: 501}) == world.look(240, {1: 501}) == []
    assert world.look(250, {1: 501}) == [FIRST]


def test_nobody_is_silent_in_a_class_that_carries_something_or_was_not_read_or_that_they_just_came_into() -> None:
    world = World("client")
    other = FourTuple(FIRST.local, FIRST.local_port, FIRST.remote, 50000)
    world.come(FIRST, 0)
    world.come(other, 0, token=8)
    assert [world.look(now, {1: now}) for now in (0, 100, 200)] == [[], [], []]
    assert world.look(300, {1: 200}) == [FIRST, other]
    world = World("client")
    world.come(FIRST, 0)
    world.look(0, {1: 5})
    world.come(FourTuple(FIRST.local, FIRST.local_port, FIRST.remote, 50000), 90, token=8)
    assert world.look(100, {1: 5}) == [FIRST]
    world = World("subflow")
    world.come(JOINED, 0, interface="eth1")
    assert [world.look(now, {1: 5}) for now in (0, 100, 200)] == [[], [], []]
