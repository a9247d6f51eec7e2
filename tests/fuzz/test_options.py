"""A little of the fuzzing each time the tests run, and that it would tell of a crash.

More of it: FUZZ_SHARES=200 scripts/test tests/fuzz --numprocesses=auto
"""

import os
import random
from typing import get_args

import pytest

from tests.fuzz import options as fuzzing
from tributary.mptcp.events import Event
from tributary.wire import options as mptcp

SHARES = int(os.environ.get("FUZZ_SHARES", "2"))
SHARE = 50_000
"""Blocks, on one Tracker."""
MOST_GROWTH = 64 * 2**20
"""Bytes: the greatest tables that a share fills come to a third of it."""


@pytest.mark.parametrize("share", range(SHARES))
def test_a_share_of_blocks_raises_nothing_and_memory_does_not_grow(share: int) -> None:
    before = fuzzing.memory()
    fuzzing.run(share, SHARE)
    assert fuzzing.memory() - before < MOST_GROWTH


def test_the_blocks_bring_about_every_kind_of_event_and_are_malformed_often() -> None:
    malformed, events = fuzzing.run(0, 20_000)
    assert set(events) == {kind.__name__ for kind in get_args(Event)}
    assert min(events.values()) > 20
    assert 4000 < malformed < 16_000


def test_the_same_seed_gives_the_same_blocks() -> None:
    assert fuzzing.run(3, 5000) == fuzzing.run(3, 5000)


def test_a_crash_is_told_with_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_block: bytes) -> None:
        raise IndexError("off by one")

    monkeypatch.setattr(mptcp, "parse", broken)
    with pytest.raises(IndexError, match="off by one") as crash:
        fuzzing.run(0, 10)
    assert next(fuzzing.blocks(random.Random(0)))[1].hex() in crash.value.__notes__[0]
