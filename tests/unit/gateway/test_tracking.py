"""What a gateway changes of the kernel's settings for tracked connections, and what it leaves."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway import tracking
from gateway.state import Changes, State
from tributary.kernel import sysctl

MOST = "net/netfilter/nf_conntrack_max"
SILENT = "net/netfilter/nf_conntrack_tcp_timeout_established"
Kernel = Callable[[int, int], None]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Has the kernel's settings be these."""

    def has(most: int, silent: int) -> None:
        (tmp_path / MOST).write_text(f"{most}\n")
        (tmp_path / SILENT).write_text(f"{silent}\n")

    (tmp_path / MOST).parent.mkdir(parents=True)
    monkeypatch.setattr(sysctl, "ROOT", tmp_path)
    return has


def test_a_small_machine_tracks_as_many_as_homes_may_have(kernel: Kernel) -> None:
    kernel(7680, 432_000)
    assert tracking.changes(4096) == {MOST: (7680, 262_144), SILENT: (432_000, 7440)}
    assert tracking.put({MOST: 262_144, SILENT: 7440}) == []
    assert tracking.changes(4096) == {}


def test_what_is_enough_or_somebodys_choice_stays(kernel: Kernel) -> None:
    kernel(1_000_000, 86_400)
    assert tracking.changes(4096) == {}


def test_what_cannot_be_changed_is_named_and_nothing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysctl, "ROOT", tmp_path / "missing")
    assert tracking.changes(4096) == {}
    (note,) = tracking.put({MOST: 262_144})
    assert "net.netfilter.nf_conntrack_max" in note and "262144" in note


def test_what_an_earlier_version_has_noted_is_read(tmp_path: Path) -> None:
    state = State(tmp_path)
    noted = Changes(is_noted=True, ipv4_was_off=True, rules="digest")
    state.note(noted)
    file = tmp_path / "changes.json"
    document = json.loads(file.read_text())
    del document["tracking"]
    file.write_text(json.dumps(document))
    assert state.changes == noted
