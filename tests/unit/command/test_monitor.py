"""What ``tributary monitor`` says of two looks."""

from command.monitor import Seen, changes
from tests.unit.command.test_show import link
from tributary.api.documents import Document


def said(before: list[Document], after: list[Document]) -> list[str]:
    first, second = (seen(documents) for documents in (before, after))
    return [f"{change.change}: {change.text}" for change in changes(first, second, now=0.0)]


def seen(links: list[Document]) -> Seen:
    return {("link", each.key): each for each in links}


def test_a_link_that_fails_is_a_line_and_the_passing_of_time_is_none() -> None:
    assert said([link("lte", age=1.0, rtt=0.1)], [link("lte", age=2.0, rtt=0.2)]) == []
    down = link("lte", state="down", reason="no-carrier")
    assert said([link("lte")], [down]) == ["changed: link lte: down, no-carrier (was: up)"]


def test_what_comes_and_goes_is_named() -> None:
    assert said([], [link("dsl", download=9_000_000)]) == ["new: link dsl: up, 9.00 Mbit/s down"]
    assert said([link("dsl")], []) == ["gone: link dsl is gone"]
