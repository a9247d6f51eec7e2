"""Tables and JSON of ``tributary``."""

import io
import json
from collections.abc import Sequence

import pytest
from rich.console import Console

from command import box, cli, lists, mapping, show, tables
from command.show import LINKS, RULES, SERVICES, SESSIONS, Column, D, Listed, Selection
from tests.refusals import command_error
from tests.unit.router import answer as routers
from tests.unit.throttler.answer import answer
from tributary.api.documents import Link, Service, Session
from tributary.api.places import MOST_SESSIONS
from tributary.settings.errors import Exit


def link(name: str, **changes: object) -> Link:
    return mapping.link(**{"name": name, "kind": "wan", "state": "up", **changes})


def printed(listed: Listed[D], columns: Sequence[Column[D]], width: int, terminal: bool = False) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=width)
    tables.print_view(listed, columns, Selection(json=False), console)
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
    (one,) = answer().sessions
    clients = ["fd00::1", "10.0.12.1", "hidden", "10.0.2.1"]
    sessions = [one.model_copy(update={"client": client}) for client in clients]
    shown = show.chosen(sessions, SESSIONS, Selection(json=False, sort="client"))
    assert [each.client for each in shown] == ["10.0.2.1", "10.0.12.1", "fd00::1", "hidden"]


def test_a_column_that_is_not_there_is_refused_with_those_that_are() -> None:
    with command_error(Exit.USAGE, "--sort speed: accepted: token, client, age"):
        show.chosen(answer().sessions, SESSIONS, Selection(json=False, sort="speed"))


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
    assert "…" not in "".join(printed(Listed(answer().sessions, 0.0), SESSIONS, 40))


def test_a_session_counts_what_its_subflows_have() -> None:
    (session,) = answer().sessions
    assert (session.token, session.client) == ("1a2b3c4d", "10.0.1.2")
    assert (session.throttled, session.sent, session.received) == (1, 3000, 45)
    held, free = session.subflows
    assert (held.local, held.rule, held.rtt) == ("10.0.1.1:3128", "wired-slow", 0.02)
    assert (free.path, free.backup, free.rule) == (None, True, None)


def test_a_path_shows_the_limit_that_the_command_set_and_no_other_rules_rate() -> None:
    status = answer()
    rules = [rule for rule in status.rules if rule.rate]
    assert all(path.limit is None for path in mapping.paths(status))
    limited = answer(rules=(rules[0].model_copy(update={"name": f"limit-{status.paths[0].name}"}),))
    assert mapping.paths(limited)[0].limit == "5mbit"


def test_a_link_has_what_its_probes_have_found() -> None:
    dsl, lte = map(mapping.wan_link, routers.answer()["wan"])
    assert (dsl.rtt, dsl.loss) == (None, None)
    assert (lte.rtt, lte.loss, lte.used, lte.cap) == (0.0312, 0.5, 20 * 10**9, 50 * 10**9)


def test_a_session_that_moves_to_the_next_page_meanwhile_is_listed_once() -> None:
    (one,) = answer().sessions
    sessions = [one.model_copy(update={"token": f"{number:08x}"}) for number in range(2_500)]

    def page(offset: int = 0) -> Listed[Session]:
        """Before each look a new session comes first."""
        sessions.insert(0, one.model_copy(update={"token": f"new-{offset}"}))
        return Listed(sessions[offset : offset + MOST_SESSIONS], 1.0, len(sessions))

    tokens = [each.token for each in lists.first(page, 3000).documents]
    assert tokens[0] == "new-0" and tokens[1:] == [f"{number:08x}" for number in range(2_500)]


def test_a_link_that_is_explained_is_a_list_as_all_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(box.Answers, "links", lambda _: Listed([link("dsl"), link("lte")], 0.0))
    cli.main(["explain", "lte", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert [*document] == ["version", "links", "total"]
    assert ([each["name"] for each in document["links"]], document["total"]) == (["lte"], 1)
