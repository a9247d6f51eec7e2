"""A little of the fuzzing each time the tests run, and that it would tell of a crash."""

import random
from typing import get_args

import pytest

from tests.fuzz import options as fuzzing
from tributary.mptcp.events import Event
from tributary.wire import options as mptcp


def test_a_hundred_thousand_blocks_raise_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzzing.fuzz(100_000, seed=1, processes=2) == 0
    assert "100000 blocks" in capsys.readouterr().out


def test_the_blocks_bring_about_every_kind_of_event_and_are_malformed_often() -> None:
    done = fuzzing.run((1, 0, 20_000))
    assert isinstance(done, fuzzing.Done)
    assert set(done.events) == {kind.__name__ for kind in get_args(Event)}
    assert min(done.events.values()) > 20
    assert 4000 < done.malformed < 16_000


def test_the_same_seed_gives_the_same_blocks() -> None:
    one, two = (fuzzing.run((7, 3, 5000)) for _ in range(2))
    assert isinstance(one, fuzzing.Done) and isinstance(two, fuzzing.Done)
    assert (one.malformed, one.events) == (two.malformed, two.events)


def test_a_crash_is_told_with_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_block: bytes) -> None:
        raise IndexError("off by one")

    monkeypatch.setattr(mptcp, "parse", broken)
    crash = fuzzing.run((1, 0, 10))
    assert isinstance(crash, fuzzing.Crash)
    assert crash.blocks[-1] == next(fuzzing.blocks(random.Random("1 0")))[1].hex()
    assert "off by one" in crash.error
