import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.netns.links_world import AT_CLIENT, AT_GATEWAY, CLIENT, GATEWAY, connection, link
from tests.netns.throttler_world import (
    BOTH_VERSIONS,
    KERNEL,
    PATHS,
    ask,
    class_statuses,
    classes,
    elements,
    installed,
    status,
    throttled,
    throttler,
)
from tests.netns.world import eventually, on, ruled

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("world")]


def policy(rule: str, tables: str = "") -> str:
    """One with a rule of these keys, and tables before it."""
    return f'{PATHS}{tables}[[rules]]\nname = "rule"\n{rule}\n'


def at_client(way: str) -> int:
    """Bytes that wired has received there, or sent."""
    return int(link(CLIENT, "wired")["stats64"][way]["bytes"])


def sent() -> int:
    """Bytes of the first class."""
    return int(class_statuses()[0]["sent"])


def rate_over(seconds: float, count: Callable[[], int]) -> float:
    """Bits per second of what ``count`` counts in bytes, from now on."""
    before, start = count(), time.monotonic()
    time.sleep(seconds)
    return 8 * (count() - before) / (time.monotonic() - start)


@pytest.mark.calm
@BOTH_VERSIONS
def test_an_upload_is_throttled_on_its_way_in_and_crosses_the_wire_hardly_faster(
    address: str, family: int, source: str
) -> None:
    before = installed()
    with throttler(source, policy('path = "wired"\ndirection = "upload"\nrate = "4mbit"')) as child:
        with connection(address) as client:
            (held,) = eventually(class_statuses)
            assert (held["device"], held["direction"]) == ("tributary-up", "upload")
            assert not elements(family)
            client.request(-15_000_000)
            eventually(lambda: sent() > 300_000)
            assert 2.8e6 < rate_over(3, sent) < 4.2e6
            # What is dropped on its way in has crossed the wire all the same; a sender that yields sends little of it.
            assert rate_over(3, lambda: at_client("tx")) < 1.2 * 4e6
            client.finish()
        assert child.stop() == 0
    assert installed() == before


@KERNEL
def test_both_directions_have_a_class_each(source: str) -> None:
    with throttler(source, policy('path = "wired"\ndirection = "both"\nrate = "4mbit"')), connection() as client:
        eventually(lambda: len(class_statuses()) == 2)
        client.transfer(-300_000)
        client.transfer(300_000)
        assert {held["device"] for held in class_statuses() if held["sent"] > 10_000} == {"tributary-up", "wired"}
        client.close()
        eventually(lambda: status()["classes_total"] == 0)


def test_the_rate_of_a_link_holds_for_what_no_rule_is_about() -> None:
    links = '[links.wired]\ndownload = "8mbit"\nupload = "6mbit"\n'
    with throttler("kernel", policy('path = "wired"\nports = [25]\nrate = "1mbit"', links)), connection() as client:
        eventually(lambda: len(status()["sessions"]) == 1)
        client.request(15_000_000)
        assert rate_over(3, lambda: at_client("rx")) < 8.6e6
        client.finish()
        client.request(-9_000_000)

        def passed() -> int:
            match = re.search(r"Sent (\d+) bytes", on(GATEWAY, "tc -s class show dev tributary-up classid 5452:f001"))
            return int(match[1]) if match else 0

        assert 1e6 < rate_over(3, passed) < 6.5e6
        client.finish()


@pytest.mark.calm
def test_who_may_borrow_gets_more_than_its_rate_while_the_link_is_idle() -> None:
    links = '[links.wired]\ndownload = "12mbit"\n'
    rule = 'path = "wired"\nrate = "1mbit"\nborrow = true\nceiling = "9mbit"'
    with throttler("kernel", policy(rule, links)), connection() as client:
        (held,) = eventually(class_statuses)
        assert (held["rate"], held["ceiling"]) == ("1mbit", "9mbit")
        client.request(15_000_000)
        eventually(lambda: sent() > 300_000)
        assert 4e6 < rate_over(3, sent) < 9.4e6
        client.finish()


@pytest.mark.parametrize("direction", ["download", "upload"])
def test_a_code_point_is_on_the_wire(direction: str) -> None:
    """The far end counts packets that carry it; an upload's end is behind the way round through the IFB device."""
    where, side = (AT_CLIENT, "sport") if direction == "download" else (AT_GATEWAY, "dport")
    rule = f"tcp {side} 3128 ip dscp cs1 counter"
    seen = f"table inet seen {{ chain seen {{ type filter hook input priority 0; {rule}; }}; }}"
    own = policy(f'path = "wired"\ndscp = "cs1"\ndirection = "{direction}"')
    with throttler("kernel", own), ruled(where, seen), connection() as client:
        eventually(lambda: status()["classes_total"] == 1)
        client.transfer(200_000 if direction == "download" else -200_000)
        found = re.search(r"counter packets (\d+)", where.run("nft", "list", "table", "inet", "seen"))
        assert found is not None and int(found[1]) > 10


@KERNEL
def test_a_dry_run_rule_counts_and_throttles_nothing(source: str) -> None:
    with throttler(source, policy('path = "wired"\nrate = "4mbit"\ndry_run = true')), connection():
        (rule,) = eventually(lambda: [rule for rule in status()["rules"] if rule["subflows"]])
        assert (rule["dry_run"], rule["subflows"], rule["matches"], rule["classes"]) == (True, 1, 1, 0)
        assert not elements() and not classes()
        assert [subflow["counted_by"] for subflow in status()["sessions"][0]["subflows"]].count("rule") == 1


def test_plain_tcp_is_never_throttled(source: str) -> None:
    # As middleboxes do that know nothing of MPTCP.
    chain = "type filter hook output priority mangle; tcp flags syn reset tcp option mptcp;"
    with (
        ruled(AT_CLIENT, f"table inet strip {{ chain out {{ {chain} }}; }}"),
        throttler(source, policy('rate = "4mbit"\nmin_subflows = 1')),
        connection() as client,
    ):
        client.transfer(100_000)
        assert status()["sessions"] == [] and not elements()


def quota(answer: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = answer["rules"][0]["quota"]
    return found


def test_a_quota_slows_its_client_down_and_outlives_the_throttler(source: str, tmp_path: Path) -> None:
    rule = 'path = "wired"\nshared_by = "client"\nrate = "20mbit"\nquota = "3MB per month"\nover_quota_rate = "500kbit"'
    state = ("--state-directory", str(tmp_path / "state"))
    with throttler(source, policy(rule), *state) as child:
        with connection() as client:
            client.request(9_000_000)
            eventually(lambda: quota(status())["exhausted"] == 1)
            assert 2_900_000 <= quota(status())["used"] <= 3_100_000
            assert class_statuses()[0]["rate"] == "500kbit"
            client.finish()
        assert child.stop() == 0
    with throttler(source, policy(rule), *state), connection():
        eventually(lambda: [held["rate"] for held in class_statuses()] == ["500kbit"])
        assert quota(status())["used"] >= 2_900_000


def test_sessions_share_the_rate_of_a_rule() -> None:
    with throttler("kernel", policy('path = "wired"\nrate = "4mbit"\nshared_by = "rule"')), ExitStack() as stack:
        clients = [stack.enter_context(connection()) for _ in range(3)]
        eventually(lambda: len(elements()) == 3)
        for client in clients:
            client.request(6_000_000)
        eventually(lambda: sent() > 300_000)
        assert 3e6 < rate_over(3, lambda: at_client("rx")) < 4.3e6
        for client in clients:
            client.finish()


METERED = 'path = "wired"\nshared_by = "client"\nrate = "4mbit"\nquota = "300MB per month"\nover_quota_rate = "500kbit"'


@pytest.mark.parametrize("change", [("unset", "rule"), ("set", "rule", "path=wired", "shared_by=client", "rate=4mbit")])
def test_a_rule_can_lose_its_quota_while_it_throttles(change: tuple[str, ...], tmp_path: Path) -> None:
    state = ("--state-directory", str(tmp_path / "state"))
    with throttled("kernel", policy(METERED), *state) as (child, _):
        ask(*change)
        # An emptied class is closed, and its counter read for the last time, two seconds later.
        eventually(lambda: change[0] == "set" or not classes())
        assert status()["rules"] == [] or status()["rules"][0]["quota"] is None
        assert child.stop() == 0
