"""What ``throttler status`` prints."""

import io

import pytest
from rich.console import Console

from tests.unit.throttler.answer import answer, unread
from throttler.service.status import Status
from throttler.status_text import lines, show


def shown(width: int, **changes: object) -> str:
    return printed(width, answer(**changes))


def printed(width: int, status: Status) -> str:
    console = Console(file=io.StringIO(), width=width)
    show(status, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_throttled_subflow_has_its_facts_on_one_line_when_it_is_wide() -> None:
    assert (
        "\n  10.0.1.1:3128 > 10.0.1.2:40000, path wired, initial, age 1 s, sent 1.00 kB, received 45 B, rtt 20.0 ms,"
        " throttled by wired-slow, download class 5452:1\n"
    ) in shown(200)


@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(line.cell_len for line in lines(answer(), width)) <= width


def test_addresses_of_ipv6_stay_whole_at_80_columns() -> None:
    text = shown(80)
    assert "[2001:db8:aaaa:bbbb:cccc:dddd:eeee:1]:3128" in text
    assert "[2001:db8:aaaa:bbbb:cccc:dddd:eeee:2]:40000" in text


def test_subflows_stand_under_their_session() -> None:
    text = shown(200)
    at = text.index("session 1a2b3c4d, age 1 s, 1 active subflow\n  10.0.1.1:3128")
    assert text.index("  [2001:db8:aaaa") > at


def test_a_backup_join_that_nothing_is_known_of_says_so_in_words() -> None:
    assert "interface wlan0, join, address id 2, backup, age 1 s, sent 2.00 kB, not throttled" in shown(200)


def test_quota_and_state_of_a_rule() -> None:
    text = shown(200)
    assert "rule lte-quota\n  not active, by client," in text
    assert "quota 20GB a month, used 5.00 GB, most by one 3.00 GB, exhausted by 0" in text


def test_a_class_that_could_not_be_read_says_so_in_place_of_its_figures() -> None:
    throttled = "wired 5452:1, download, rule wired-slow, for 10.0.1.2:40000, 5mbit, 1 subflow"
    assert f"{throttled}, sent 1.23 kB in 5 packets, dropped 7, backlog 0 B\n" in shown(200)
    assert f"{throttled}, not read\n" in printed(200, unread(answer()))


def test_what_is_cut_is_shown() -> None:
    assert "5,000 sessions (the first 1 shown)" in shown(200, sessions_total=5000)


def test_an_answer_without_sessions_and_classes() -> None:
    empty = shown(80, sessions=(), classes=(), rules=(), paths=(), sessions_total=0, classes_total=0)
    assert "0 sessions" in empty


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in shown(80, policy="/etc/\x1b[2J.toml")
