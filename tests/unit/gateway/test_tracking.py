"""What a gateway changes of the kernel's settings for tracked connections, and what it leaves."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gateway import rules, tracking, tunnels
from gateway.settings import GatewaySettings
from gateway.state import UNCHANGED, State
from gateway.tunnels import Gateway
from tributary.kernel import sysctl
from tributary.settings.files import check

MOST = "net/netfilter/nf_conntrack_max"
SILENT = "net/netfilter/nf_conntrack_tcp_timeout_established"
CLOSED = "net/netfilter/nf_conntrack_tcp_timeout_time_wait"
Kernel = Callable[[int, int, int], None]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Has the kernel's settings be these."""

    def has(most: int, silent: int, closed: int) -> None:
        for name, value in ((MOST, most), (SILENT, silent), (CLOSED, closed)):
            (tmp_path / name).write_text(f"{value}\n")

    (tmp_path / MOST).parent.mkdir(parents=True)
    monkeypatch.setattr(sysctl, "ROOT", tmp_path)
    return has


def changes(connections: int = 4096) -> Mapping[str, tuple[int, int]]:
    return tracking.changes(connections, rules.most_begun)


def test_a_small_machine_tracks_as_many_as_homes_may_have(kernel: Kernel) -> None:
    """And those that ended lately, which no limit counts: 200 a second, and 1000 at once."""
    kernel(7680, 432_000, 120)
    assert changes() == {MOST: (7680, 64 * (4096 + 3000)), SILENT: (432_000, 7440), CLOSED: (120, 10)}
    assert tracking.put({name: needed for name, (_, needed) in changes().items()}) == []
    assert changes() == {}
    assert changes(8192) == {MOST: (64 * (4096 + 3000), 64 * (8192 + 3000))}


def test_what_is_enough_or_somebodys_choice_stays_with_room_for_connections_that_ended(kernel: Kernel) -> None:
    kernel(1_000_000, 86_400, 30)
    assert changes() == {}
    kernel(0, 86_400, 30)  # no maximum at all
    assert changes() == {}
    kernel(500_000, 86_400, 60)
    assert changes() == {MOST: (500_000, 64 * (4096 + 13_000))}


def test_what_cannot_be_changed_is_named_and_nothing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysctl, "ROOT", tmp_path / "missing")
    assert changes() == {}
    (note,) = tracking.put({MOST: 262_144})
    assert "net.netfilter.nf_conntrack_max" in note and "262144" in note


def test_what_an_earlier_version_has_noted_is_read(tmp_path: Path) -> None:
    state = State(tmp_path)
    noted = replace(UNCHANGED, is_noted=True, ipv4_was_off=True, rules="digest")
    state.note(noted)
    file = tmp_path / "changes.json"
    document = json.loads(file.read_text())
    del document["tracking"]
    file.write_text(json.dumps(document))
    assert state.changes == noted


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"is_noted": "yes"}'])
def test_a_damaged_list_of_what_was_changed_is_renamed_and_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "changes.json").write_text(text)
    state = State(tmp_path)
    assert state.changes == UNCHANGED and (tmp_path / "changes.json").exists(), "who only looks sets nothing aside"
    (note,) = state.set_damaged_aside()
    assert "changes.json.broken" in note and note.endswith("stays until a reboot")
    assert [file.name for file in tmp_path.iterdir()] == ["changes.json.broken"]
    assert state.set_damaged_aside() == []


def test_what_somebody_has_set_since_then_stays_when_the_tunnels_end(kernel: Kernel, tmp_path: Path) -> None:
    """As the doctor does where the table is full: a restart must not make it so again."""
    settings = check({"name": "gateway.example.net"}, GatewaySettings, "test")
    gateway, ours = Gateway(settings, State(tmp_path / "state")), 64 * (4096 + 3000)

    def values() -> list[int | None]:
        return [sysctl.number(each) for each in (MOST, SILENT, CLOSED)]

    def end() -> None:
        noted = gateway.state.changes
        tracking.put_back(noted.tracking, noted.tracked)

    kernel(7680, 432_000, 120)
    for _ in range(2):
        assert tunnels._make_room(gateway) == []
        assert values() == [ours, 7440, 10]
    end()
    assert values() == [7680, 432_000, 120]
    tunnels._make_room(gateway)
    sysctl.write(MOST, 4 * ours)
    end()
    assert values() == [4 * ours, 432_000, 120]
    # More is needed than somebody's number: that one comes back.
    kernel(7680, 432_000, 120)
    tunnels._make_room(gateway)
    sysctl.write(MOST, ours - 1)
    tunnels._make_room(gateway)
    assert values() == [ours, 7440, 10]
    end()
    assert values() == [ours - 1, 432_000, 120]
