from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from tests.refusals import command_error
from tributary.settings.errors import Exit
from tributary.settings.files import Settings, load
from tributary.settings.units import Duration, PositiveRate, Quantity, Rate, Share, Size


class Rule(Settings):
    name: str = Field(description="a name in quotes")
    rate: PositiveRate


class Policy(Settings):
    rules: tuple[Rule, ...] = Field(description="a list of rules", strict=False)
    subflows: int = Field(2, ge=2, description="a whole number from 2 on")


@pytest.mark.parametrize(
    ("kind", "text", "amount"),
    [
        (Rate, "5mbit", 5_000_000),
        (Rate, "0.5kbit", 500),
        (Duration, "25ms", 25_000),
        (Duration, "1.5s", 1_500_000),
        (Size, "0.72MB", 720_000),
        (Size, "64KiB", 65_536),
        (Share, "0.5%", 5_000),
        (Share, "100%", 1_000_000),
    ],
)
def test_a_number_with_its_unit_is_read(kind: type[Quantity], text: str, amount: int) -> None:
    assert kind.parse(text) == kind(amount)


@pytest.mark.parametrize(
    "text",
    ["5", "5 mbit", "-5mbit", "mbit", "5MBIT", "1e3mbit", "5mbits", "0.0001bit", "\u0665mbit", 5, None]
    + [f"{count * '9'}mbit" for count in (400, 5000)],
)
def test_what_is_not_a_rate_is_refused_with_what_would_be(text: object) -> None:
    with pytest.raises(ValueError, match="such as '5mbit'"):
        Rate.parse(text)


def test_a_rate_of_zero_is_no_positive_rate() -> None:
    with pytest.raises(ValueError, match="above zero"):
        PositiveRate.parse("0mbit")


def test_more_than_the_whole_is_no_share() -> None:
    with pytest.raises(ValueError, match="100%"):
        Share.parse("101%")


@given(st.sampled_from([Rate, Duration, Size, Share]), st.integers(0, 10**6))
def test_what_is_written_reads_back_as_the_same(kind: type[Quantity], amount: int) -> None:
    assert kind.parse(str(kind(amount))) == kind(amount)


def written(folder: Path, text: str) -> Path:
    path = folder / "p.toml"
    path.write_text(text)
    return path


RULE = '[[rules]]\nname = "slow"\nrate = "5mbit"\n'


def test_a_right_file_becomes_a_frozen_model(tmp_path: Path) -> None:
    policy = load(written(tmp_path, RULE), Policy)
    assert policy.rules[0].rate == PositiveRate(5_000_000)
    assert policy.subflows == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RULE + 'colour = "red"\n', "p.toml: rules[0].colour = 'red': accepted: one of the keys name, rate"),
        ("speed = 1\n" + RULE, "p.toml: speed = 1: accepted: one of the keys rules, subflows"),
        (RULE.replace("5mbit", "5"), f"p.toml: rules[0].rate = '5': accepted: {PositiveRate.ACCEPTED}"),
        (RULE.replace("5mbit", "-5mbit"), f"p.toml: rules[0].rate = '-5mbit': accepted: {PositiveRate.ACCEPTED}"),
        ("subflows = 1\n" + RULE, "p.toml: subflows = 1: accepted: a whole number from 2 on"),
        ('subflows = "2"\n' + RULE, "p.toml: subflows = '2': accepted: a whole number from 2 on"),
        ("", "p.toml: rules = '(missing)': accepted: a list of rules"),
        ('[[rules]]\nrate = "5mbit"\n', "p.toml: rules[0].name = '(missing)': accepted: a name in quotes"),
        ("rules = [", "p.toml: not valid TOML:"),
        ("subflows = " + 5000 * "2", "p.toml: not valid TOML:"),
        ("subflows = " + 5000 * "[", "p.toml: not valid TOML:"),
    ],
)
def test_a_wrong_file_gets_one_line_that_names_file_key_value_and_what_is_accepted(
    tmp_path: Path, text: str, message: str
) -> None:
    with command_error(Exit.USAGE, begins=f"{tmp_path}/{message}"):
        load(written(tmp_path, text), Policy)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with command_error(Exit.NO_INPUT, "nowhere.toml"):
        load(tmp_path / "nowhere.toml", Policy)
