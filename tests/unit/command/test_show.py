"""Tables and JSON of ``tributary``."""

import io
import json
from collections.abc import Sequence

import pytest
from rich.console import Console

from command import lists, mapping, show, tables
from command.show import LINKS, RULES, SERVICES, SESSIONS, Column, D, Listed, Selection
from tests.unit.throttler.answer import answer
from tributary.api.documents import Link, Service
from tributary.settings.errors import CommandError, Exit


def link(name: str, **changes: object) -> Link:
    return mapping.link(**{"name": name, "kind": "wan", "state": "up", **changes})


def printed(listed: Listed[D], columns: Sequence[Column[D]], width: int, terminal: bool = False) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=width)
    tables.print_view(console, listed, columns, Selection(json=False))
    return file.getvalue().splitlines()


def table(*links: Link) -> list[str]:
    return printed(Listed(links, 0.0), LINKS, 100)


def test_columns_line_up_and_one_that_nothing_is_known_of_is_left_out() -> None:
    head, dsl, lte = map(str.rstrip, table(link("dsl", rtt=0.02), link("lte", rtt=0.1234)))
    assert head == "link  state       rtt"
    assert dsl == "dsl   up      20.0 ms"
    assert lte == "lte   up     123.4 ms"


def test_a_list_is_sorted_by_a_column_and_what_is_not_known_comes_last() -> None:
    links = [link("a", rtt=0.3), link("b"), link("c", rtt=0.1)]

    def order(sort: str) -> str:
        return "".join(each.name for each in show.chosen(links, LINKS, Selection(json=False, sort=sort)))

    assert (order("rtt"), order("-rtt"), order("-link")) == ("cab", "acb", "cba")


def test_clients_are_sorted_as_addresses_and_not_as_texts() -> None:
    (one,) = mapping.sessions(answer())
    clients = ["fd00::1", "10.0.12.1", "hidden", "10.0.2.1"]
    sessions = [one.model_copy(update={"client": client}) for client in clients]
    shown = show.chosen(sessions, SESSIONS, Selection(json=False, sort="client"))
    assert [each.client for each in shown] == ["10.0.2.1", "10.0.12.1", "fd00::1", "hidden"]


def test_a_column_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(CommandError, match="--sort speed: accepted: token, client, age") as caught:
        show.chosen(mapping.sessions(answer()), SESSIONS, Selection(json=False, sort="speed"))
    assert caught.value.code == Exit.USAGE


def test_a_list_that_is_cut_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    lists.show("links", Listed([link("a"), link("b"), link("c")], 0.0), LINKS, Selection(json=False, limit=2))
    assert "the first 2 of 3" in capsys.readouterr().out


def test_json_has_a_version_and_all_fields(capsys: pytest.CaptureFixture[str]) -> None:
    lists.show("links", Listed([link("a", rtt=0.02)], 0.0), LINKS, Selection(json=True))
    document = json.loads(capsys.readouterr().out)
    assert (document["version"], document["total"]) == (1, 1)
    assert document["links"][0].keys() == Link.model_fields.keys()


def test_a_rules_state_and_its_quota_are_shown() -> None:
    slow, quota = map(mapping.rule, answer().rules)
    assert (slow.state, slow.rate, slow.subflows, slow.matches) == ("active", "5mbit", 1, 17)
    assert (quota.state, quota.quota, quota.used, quota.exhausted) == ("not now", "20GB per month", 3_000_000_000, 0)
    assert [column.title for column in RULES if column.cell(quota) == "3.00 GB"] == ["most used"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in "".join(table(link("a\x1b[2J")))


@pytest.mark.parametrize(("terminal", "lines"), [(False, 2), (True, 3)])
def test_no_cell_is_cut_and_on_a_terminal_the_last_column_folds(terminal: bool, lines: int) -> None:
    service = Service(name="throttler", running=True, uptime=2.0, summary="1 session, by /etc/tributary/throttler.toml")
    shown = printed(Listed([service], 0.0), SERVICES, 40, terminal)
    assert len(shown) == lines
    assert "/etc/tributary/throttler.toml" in shown[-1]


def test_titles_that_are_wider_than_their_cells_leave_the_others_their_room() -> None:
    assert "…" not in "".join(printed(Listed(mapping.sessions(answer()), 0.0), SESSIONS, 40))
