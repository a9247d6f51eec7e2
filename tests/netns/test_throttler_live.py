import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from experiments.testbed.usage import counters
from tests.netns.links_world import AT_GATEWAY, CLIENT, GATEWAY, connection, endpoint, established
from tests.netns.throttler_world import (
    KERNEL,
    TEXT,
    WIRED_SLOW,
    ask,
    class_statuses,
    classes,
    elements,
    spare,
    status,
    throttled,
    throttler,
    throttler_beside,
    tributary,
)
from tests.netns.world import eventually, on
from tributary.settings.errors import Exit

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("world")]


def subflows() -> dict[str, dict[str, Any]]:
    """The one session's subflows by path."""
    (session,) = status()["sessions"]
    return {subflow["path"]: subflow for subflow in session["subflows"]}


def by_path(key: str) -> dict[str, Any]:
    """What they have for this key."""
    return {path: subflow[key] for path, subflow in subflows().items()}


def devices() -> list[str]:
    """Those with classes."""
    return [held["device"] for held in class_statuses()]


def resets() -> int:
    """Resets that the gateway's TCP has sent or got since it is there (RFC 2012)."""
    counted = counters(AT_GATEWAY)
    return counted["TcpOutRsts"] + counted["TcpEstabResets"]


@pytest.mark.smoke
@KERNEL
def test_a_rule_that_is_set_steers_a_running_download_and_its_release_frees_it(source: str) -> None:
    # Without a limit the download would be over before the rule comes.
    with throttled(source, TEXT + '[links.wired]\ndownload = "40mbit"\n') as (_, client):
        before = resets()
        ask("unset", "wired-slow")
        eventually(lambda: not elements())
        client.request(30_000_000)
        answer = json.loads(ask("set", "live", "path=wired", "rate=4mbit", "--json"))
        assert answer["rules"] == [{"name": "live", "path": "wired", "rate": "4mbit"}]
        assert answer["elements_added"] == 1
        (held,) = class_statuses()
        assert (held["rule"], held["rate"]) == ("live", "4mbit")
        sent, start = held["sent"], time.monotonic()
        # How much of it MPTCP's scheduler still uses is its own affair, if no more than the rate.
        eventually(lambda: class_statuses()[0]["sent"] - sent > 100_000 or time.monotonic() - start > 3)
        assert 8 * (class_statuses()[0]["sent"] - sent) / (time.monotonic() - start) < 5e6
        ask("unset", "live")
        assert not elements()
        client.finish()
        assert resets() == before


@KERNEL
def test_another_rate_changes_the_class_in_place_with_its_counters_and_drops_nothing(source: str) -> None:
    with throttled(source) as (_, client):
        client.request(12_000_000)
        (before,) = eventually(lambda: [each for each in class_statuses() if each["sent"] > 200_000])
        answer = json.loads(ask("set", "wired-slow", "path=wired", "rate=50mbit", "--json"))
        assert (answer["elements_added"], answer["elements_removed"]) == (0, 0)
        (after,) = class_statuses()
        assert (after["id"], after["rate"]) == (before["id"], "50mbit")
        assert status()["rules"][0]["runtime"]
        client.finish()
        # Nothing is under way any more, so what is dropped from here on the change has dropped.
        (before,) = eventually(lambda: [held for held in class_statuses() if held["backlog"] == 0])
        ask("set", "wired-slow", "path=wired", "rate=1mbit")
        (after,) = class_statuses()
        same = ("device", "id", "dropped", "subflows")
        assert {key: after[key] for key in same} == {key: before[key] for key in same}
        assert after["sent"] >= before["sent"] > 100_000


def test_a_rule_that_is_not_accepted_changes_nothing() -> None:
    with throttled("kernel"):
        before = on(GATEWAY, "nft list ruleset"), classes()
        said = ask("set", "x", "path=nowhere", "rate=5mbit", code=Exit.USAGE)
        assert said.startswith("throttler: set: rules[0].path = 'nowhere': accepted: one of the file's paths: ")
        for words in (("x", "rate=5"), ("x", "colour=red"), ("so slow", "rate=5mbit")):
            assert ask("set", *words, code=Exit.USAGE).startswith("throttler: set: ")
        assert (on(GATEWAY, "nft list ruleset"), classes()) == before


def test_the_last_rule_gives_way_to_those_before_it() -> None:
    with throttled("kernel"):
        ask("set", "rest", "rate=9mbit", "--last")
        assert by_path("rule") == {"wired": "wired-slow", "wireless": "rest"}
        assert "no rule" not in ask("unset", "rest")
        assert "accepted: the name of a rule: wired-slow" in ask("unset", "rest", code=Exit.USAGE)


@KERNEL
def test_a_reload_takes_the_file_as_it_is_now_and_forgets_what_was_set(source: str, policy: Path) -> None:
    with throttled(source, policy) as (child, _):
        ask("set", "live", "path=wireless", "rate=3mbit")
        policy.write_text(TEXT.replace('rate = "5mbit"', 'rate = "7mbit"'))
        ask("reload")
        assert [(held["rule"], held["rate"]) for held in class_statuses()] == [("wired-slow", "7mbit")]
        policy.write_text(TEXT.replace('path = "wired"', 'path = "wireless"'))
        child.send_signal(signal.SIGHUP)
        eventually(lambda: devices() == ["wireless"])


def test_a_broken_file_leaves_the_old_policy_active(policy: Path) -> None:
    with throttled("kernel", policy) as (child, _):
        policy.write_text(TEXT.replace("5mbit", "5"))
        assert "rules[0].rate = '5'" in ask("reload", code=Exit.USAGE)
        child.send_signal(signal.SIGHUP)
        policy.unlink()
        assert "cannot be read" in ask("reload", code=Exit.NO_INPUT)
        assert [held["rate"] for held in class_statuses()] == ["5mbit"]


@KERNEL
def test_explain_says_which_rule_applies_and_why_the_others_do_not(source: str) -> None:
    with throttled(source):
        ask("set", "mail", "ports=[25]", "rate=1mbit")
        wired = subflows()["wired"]
        ends = wired["local"], wired["remote"]
        (session,) = status()["sessions"]
        text = tributary("explain", *ends)
        assert text.splitlines() == [
            f"{ends[0]} > {ends[1]} on path wired (session {session['token']})",
            "  mail: does not apply: this host's port is 3128, not 25",
            "  wired-slow: applies",
        ]
        both = json.loads(tributary("explain", session["token"], "--json"))["subflows"]
        assert {one["path"]: [rule["applies"] for rule in one["rules"]] for one in both} == {
            "wired": [False, True],
            "wireless": [False, False],
        }
        assert "no rule applies: it is not throttled" in tributary("explain", session["token"])
        assert "accepted: a token, or the two ends" in tributary("explain", "a", "b", "c", code=Exit.USAGE)
        assert "accepted: the token of a session" in tributary("explain", "00000000", code=Exit.USAGE)


@KERNEL
def test_neither_status_nor_log_names_a_client_where_the_policy_forbids_it(source: str) -> None:
    with throttled(source, f'privacy = "network"\n{TEXT}') as (child, _):
        wired = subflows()["wired"]
        assert wired["remote"].startswith("10.0.1.0:")
        (session,) = status()["sessions"]
        explained = tributary("explain", session["token"])
        ask("unset", "wired-slow")
        texts = [tributary("sessions"), tributary("sessions", session["token"]), explained]
        child.terminate()
        texts.append(child.complaints())
    assert all("10.0.1.0" in text and "10.0.1.2" not in text for text in texts), texts


def test_metrics_are_served_and_a_removed_class_has_none() -> None:
    series = 'tributary_throttler_class_sent_bytes_total{direction="download",rule="wired-slow"}'
    with throttled("kernel", WIRED_SLOW, "--metrics", "10.0.1.1:9464"):
        page = metrics()
        assert series in page and 'tributary_throttler_rule_subflows{rule="wired-slow"} 1.0' in page
        assert "10.0.1.2" not in page
        (held,) = class_statuses()
        on(GATEWAY, f"tc class del dev wired classid {held['id']}")
        (entry,) = class_statuses()
        assert entry == held | dict.fromkeys(COUNTERS)
        page = metrics()
        assert series not in page and "class_backlog_bytes{" not in page
        assert "tributary_throttler_unread_classes 1.0\n" in page and "tributary_throttler_classes 1.0\n" in page
    assert not classes()


COUNTERS = ("sent", "packets", "dropped", "backlog")


def metrics() -> str:
    """What a throttler with --metrics serves."""
    return on(GATEWAY, "curl -sf http://10.0.1.1:9464/metrics")


def test_sessions_older_than_the_throttler_are_throttled_at_once(source: str) -> None:
    with connection() as client:
        eventually(lambda: established() == 2)
        with throttler_beside(source):
            assert len(elements()) == 1
            assert by_path("initial") == {"wired": True, "wireless": False}
            client.close()
            eventually(lambda: not elements() and status()["sessions"] == [])


def test_an_active_policy_throttles_a_session_from_its_second_subflow_on(source: str) -> None:
    with throttled(source) as (_, client):
        (held,) = class_statuses()
        client.transfer(6_000_000)
        sent = subflows()["wired"]["sent"]
        (held,) = class_statuses()
        # All that the path ever carried went through the class, but for the first kilobyte, which came before the join.
        assert sent is not None and held["sent"] > sent - 5000


def test_a_joined_subflow_is_throttled_before_it_carries_data(source: str) -> None:
    with throttled(source, TEXT.replace('path = "wired"', 'subflow_type = "join"')) as (_, client):
        client.transfer(3_000_000)
        sent = subflows()["wireless"]["sent"]
        (held,) = class_statuses()
        assert held["device"] == "wireless"
        assert held["sent"] >= (sent or 0)


@KERNEL
def test_the_log_is_json_if_asked_for(source: str) -> None:
    with throttled(source, WIRED_SLOW, "--log", "json") as (child, _):
        assert child.stop() == 0
        lines = [json.loads(line) for line in child.complaints().splitlines()]
        assert [line["event"] for line in lines].count("throttle") == 1
        assert lines[0]["rule"] == "wired-slow"


def test_a_join_to_a_session_older_than_the_throttler_is_seen(source: str) -> None:
    add = "ip mptcp endpoint add 10.0.2.2 dev wireless subflow"
    on(CLIENT, f"ip mptcp endpoint del id {endpoint(CLIENT, '10.0.2.2')}")
    try:
        with connection() as client, throttler_beside(source):
            assert len(eventually(lambda: status()["sessions"])) == 1 and not elements()
            on(CLIENT, add)
            client.transfer(1000)
            eventually(elements)
            assert set(subflows()) == {"wired", "wireless"}
    finally:
        on(CLIENT, add, check=False)


def test_a_subflow_that_becomes_a_backup_falls_under_the_rule_for_backups(source: str) -> None:
    backups = TEXT.replace("min_subflows = 2", "min_subflows = 1").replace('path = "wired"', "backup = true")
    number = endpoint(CLIENT, "10.0.2.2")
    with throttler(source, backups), connection():
        eventually(lambda: status()["subflows_total"] == 2)
        assert not elements()
        try:
            on(CLIENT, f"ip mptcp endpoint change id {number} backup")
            eventually(elements)
            assert subflows()["wireless"]["download"] and status()["sessions"][0]["active"] == 1
        finally:
            on(CLIENT, f"ip mptcp endpoint change id {number} nobackup")
        eventually(lambda: not elements())


ONE_PATH = '[paths.wired]\ninterface = "wired"\n[[rules]]\nname = "held"\npath = "wired"\nrate = "4mbit"\n'
TWO_PATHS = '[paths.wireless]\ninterface = "wireless"\n' + ONE_PATH.replace('path = "wired"', 'path = "wireless"')


def test_a_reload_takes_up_a_path_over_another_interface(source: str, policy: Path) -> None:
    policy.write_text(ONE_PATH)
    with throttler(source, policy):
        policy.write_text(TWO_PATHS)
        ask("reload")
        with connection():
            eventually(lambda: devices() == ["wireless"])


def test_a_subflow_over_an_interface_of_no_path_is_left_alone(source: str) -> None:
    policy = ONE_PATH.replace('path = "wired"', "min_subflows = 1")
    with throttler(source, policy) as child, connection() as client:
        eventually(lambda: established() == 2)
        client.transfer(1000)
        eventually(elements)
        assert child.poll() is None and devices() == ["wired"]


def test_an_interface_that_went_away_does_not_end_the_throttler_at_the_next_change(policy: Path) -> None:
    policy.write_text('[paths.spare]\ninterface = "spare"\n' + ONE_PATH.replace('path = "wired"\n', ""))
    with spare(), throttler("kernel", policy), connection():
        on(GATEWAY, "ip link del spare")
        policy.write_text(ONE_PATH.replace('rate = "4mbit"', 'rate = "4mbit"\ndirection = "both"'))
        ask("reload")
        eventually(lambda: len(class_statuses()) == 2)


@KERNEL
def test_a_root_qdisc_that_somebody_took_is_missed_at_the_next_change(source: str) -> None:
    with throttled(source):
        on(GATEWAY, "tc qdisc del dev wired root")
        assert "removed the throttler's root qdisc from wired: resetting" in ask("reload", code=Exit.SYSTEM)
        eventually(lambda: status()["counters"].get("resets") == 1 and status()["classes"])
        assert elements() and classes()
