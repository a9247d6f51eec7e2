"""What --set changes when several scenarios run."""

from pathlib import Path

import pytest
from pydantic import Field

from experiments.scenarios.grid import Grid
from experiments.scenarios.legacy import Legacy
from experiments.study.changes import orders
from experiments.study.experiment import Experiment
from experiments.testbed.profile import PROFILES
from tests.refusals import command_error
from tributary.settings.errors import CommandError, Exit


class Wide(Legacy):
    name = "wide"

    width: int = Field(default=1, ge=1, description="a whole number, at least 1")


class Quick(Legacy):
    quick_links = ("wired.rate=50mbit", "wireless.rate=10mbit")


class Own(Wide):
    name = "own"
    any_links = False


@pytest.fixture
def both(tmp_path: Path) -> list[Experiment]:
    """One experiment with the usual options and links, and one with an option and a link of its own."""
    far = tmp_path / "far.toml"
    far.write_text('[links.wired]\nrate = "100mbit"\n[links.satellite]\nrate = "30mbit"\n')

    class Far(Wide):
        name = "wide"
        profile = far

    return [Legacy(), Far()]


def test_a_change_applies_to_those_that_have_its_key(both: list[Experiment]) -> None:
    narrow, wide = orders(both, ["width=2", "size=2MB", "satellite.rate=5mbit", "wired.delay=40ms"])
    assert narrow.experiment == Legacy.model_validate({"size": "2MB"})
    assert wide.experiment == type(both[1]).model_validate({"size": "2MB", "width": 2})
    assert [str(link.rate) for link in wide.profile.links.values()] == ["100mbit", "5mbit"]
    assert "satellite" not in narrow.profile.links
    assert [str(order.profile.links["wired"].delay) for order in (narrow, wide)] == ["40ms", "40ms"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("colour=blue", "colour = 'blue': accepted: one of the keys longest, repeat, size, warm_up, width"),
        ("dsl.rate=1mbit", "dsl.rate = '1mbit': accepted: one of the links wired, wireless, satellite"),
        ("width=0", "wide: --set: width = 0: accepted: a whole number, at least 1"),
        ("size=2", "accepted: a size"),
        ("size", "--set size: accepted: KEY=VALUE"),
        ("repeat=0", "at least 1"),
        ("wired.rate=fast", "accepted: a rate"),
        ("satellite.colour=blue", "--set satellite.colour=blue: links.satellite.colour"),
        ("satellite.rate", "--set satellite.rate: accepted: KEY=VALUE"),
    ],
)
def test_what_none_has_or_one_cannot_take_is_refused(both: list[Experiment], change: str, complaint: str) -> None:
    with command_error(Exit.USAGE, complaint):
        orders(both, [change])


def test_quick_gives_way_to_what_is_set_and_to_repeat() -> None:
    (order,) = orders([Quick()], ["size=2MB", "wired.rate=30mbit"], quick=True, repeat=7)
    assert order.experiment == Quick.model_validate({"size": "2MB", "warm_up": 0.5, "repeat": 7})
    assert [str(link.rate) for link in order.profile.links.values()] == ["30mbit", "10mbit"]


def test_a_quick_run_over_the_links_of_a_profile_leaves_them_as_they_are() -> None:
    (order,) = orders([Quick()], [], quick=True, over=PROFILES / "slow.toml")
    assert str(order.profile.links["wired"].rate) == "10mbit"


def test_a_profile_takes_the_place_of_the_links_of_those_that_run_over_any() -> None:
    profile = PROFILES / "dsl-lte-trace.toml"
    anywhere, stays = orders([Legacy(), Own()], ["dsl.delay=1ms"], over=profile)
    assert list(anywhere.profile.links) == ["dsl", "lte"]
    assert list(stays.profile.links) == ["wired", "wireless"]
    with pytest.raises(CommandError, match=r"--profile .*: own: accepted: the links of its own"):
        orders([Own()], [], over=profile)


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("false", False)])
def test_true_and_false_are_no_text(text: str, expected: bool) -> None:
    (order,) = orders([Grid()], [f"three={text}"])
    assert isinstance(order.experiment, Grid) and order.experiment.three is expected


@pytest.mark.parametrize("text", ['[link.wired]\nrate = "1mbit"\n', "links = 3\n"])
def test_a_profile_without_links_is_refused_by_its_key(text: str, tmp_path: Path) -> None:
    profile = tmp_path / "bad.toml"
    profile.write_text(text)
    with command_error(Exit.USAGE, "bad.toml: link"):
        orders([Legacy()], [], over=profile)
