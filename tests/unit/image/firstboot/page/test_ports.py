"""Which port the page chooses, as ports change."""

from collections.abc import Iterable

from image.firstboot.page.ports import QUIET_SECONDS, Port, found, quiet_since

UP, DOWN, UPSTREAM = (True, False), (False, False), (True, True)


def chosen(story: Iterable[tuple[float, dict[str, tuple[bool, bool]]]]) -> str | None:
    """What is chosen at the end of ``story``: at each time, every port's carrier, and whether it has an upstream."""
    quiet: dict[str, float] = {}
    now = 0.0
    for now, ports in story:
        quiet = quiet_since(quiet, [Port(name, *state) for name, state in ports.items()], now)
    return found(quiet, now)


def test_a_port_that_stays_quiet_is_the_lan_s() -> None:
    assert chosen([(0, {"end0": UP}), (QUIET_SECONDS, {"end0": UP})]) == "end0"
    assert chosen([(0, {"end0": UP}), (QUIET_SECONDS - 0.1, {"end0": UP})]) is None


def test_a_port_with_an_upstream_or_without_a_cable_never_is() -> None:
    for state in (UPSTREAM, DOWN):
        assert chosen((second, {"end0": state}) for second in range(1000)) is None


def test_an_upstream_or_another_cable_begins_the_wait_anew() -> None:
    for between in (UPSTREAM, DOWN):
        story = [(0, {"end0": UP}), (20, {"end0": between}), (21, {"end0": UP})]
        assert chosen([*story, (QUIET_SECONDS + 20, {"end0": UP})]) is None
        assert chosen([*story, (QUIET_SECONDS + 21, {"end0": UP})]) == "end0"


def test_of_several_it_is_the_one_that_was_there_first() -> None:
    assert chosen([(0, {"b": UP, "a": DOWN}), (1, {"b": UP, "a": UP}), (99, {"b": UP, "a": UP})]) == "b"
    assert chosen([(0, {"b": UP, "a": UP}), (99, {"b": UP, "a": UP})]) == "a"
    assert chosen([(0, {"b": UP, "a": UP}), (99, {"b": UP, "a": UPSTREAM})]) == "b"


def test_a_port_that_is_gone_is_forgotten() -> None:
    assert chosen([(0, {"a": UP}), (10, {}), (11, {"a": UP}), (40, {"a": UP})]) is None
