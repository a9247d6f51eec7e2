"""What the running throttler does with a policy that it can only keep in part."""

import io
from datetime import datetime
from pathlib import Path

import pytest

from throttler import cli
from throttler.policy.model import read
from throttler.policy.quotas import Quotas
from throttler.policy.values import SteeringMode
from throttler.service.commands import Commands
from throttler.service.engine import Engine
from throttler.shaping import backend
from throttler.sources.source import Source, SourceKind
from tributary.daemons import control
from tributary.daemons.logs import Log
from tributary.kernel import sysctl
from tributary.settings.errors import CommandError, Exit

PATHS = '[paths.good]\ninterface = "good"\n'
RULE = '[[rules]]\nname = "slow"\npath = "good"\nrate = "1mbit"\n'
STEERED = f'{PATHS}[steering]\nmode = "on"\n{RULE}'
FASTER = RULE.replace("slow", "faster").replace("1mbit", "5mbit")


class NoEvents(Source):
    """Sessions would end on this host."""

    kind = SourceKind.KERNEL


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def commands(tmp_path: Path, log: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Of a throttler whose policy steers, in a kernel that manages the paths itself."""
    monkeypatch.setattr(sysctl, "ROOT", tmp_path)
    monkeypatch.setattr(backend, "ensure_no_foreign_qdisc", lambda _devices: None)
    (tmp_path / "net/mptcp").mkdir(parents=True)
    (tmp_path / "net/mptcp/enabled").write_text("1")
    (tmp_path / "net/mptcp/pm_type").write_text("0")
    file = tmp_path / "policy.toml"
    file.write_text(STEERED)
    policy = read(file)
    engine = Engine(policy, Quotas(), datetime.now)
    feed, no_timer = lambda events: engine.handle(tuple(events), 0), lambda _seconds: None
    made = Commands(file, policy, engine, NoEvents(), feed, no_timer, Log(stream=log))
    made.begin_steering()
    return made


def test_a_policy_that_a_start_takes_without_its_steering_is_reloaded_so_too(
    commands: Commands, tmp_path: Path, log: io.StringIO
) -> None:
    assert (commands.steering_mode, log.getvalue().count("not steered")) == (SteeringMode.OFF, 1)
    (tmp_path / "policy.toml").write_text(STEERED + FASTER)
    answer = commands.reload()
    assert [rule["name"] for rule in answer["rules"]] == ["slow", "faster"]
    assert "net.mptcp.pm_type=1" in answer["not_steered"]
    assert (commands.steering_mode, log.getvalue().count("net.mptcp.pm_type=1")) == (SteeringMode.OFF, 2)
    (tmp_path / "net/mptcp/pm_type").write_text("1")
    assert "not_steered" not in commands.reload()
    assert commands.steering_mode is SteeringMode.ON


def test_a_policy_whose_rules_the_kernel_did_not_take_steers_as_it_says_all_the_same(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in force: all of it is installed again, and a trial before it has ended."""
    (tmp_path / "net/mptcp/pm_type").write_text("1")
    commands.reload()
    (tmp_path / "policy.toml").write_text(PATHS + RULE)

    def fails(_events: object) -> None:
        raise CommandError(Exit.SYSTEM, "tc: no")

    timers: list[float | None] = []
    monkeypatch.setattr(commands, "_reload_in", timers.append)
    commands.answer({"command": "try", "name": "new", "settings": PATHS + FASTER, "seconds": 5})
    monkeypatch.setattr(commands, "_feed", fails)
    with pytest.raises(CommandError, match="tc: no"):
        commands.reload()
    assert commands.steering_mode is SteeringMode.OFF
    assert timers == [5, None]


def test_a_policy_that_is_tried_is_refused_before_any_change_where_it_cannot_steer(commands: Commands) -> None:
    before = commands.policy
    with pytest.raises(CommandError, match=r"sysctl net\.mptcp\.pm_type=1"):
        commands.answer({"command": "try", "name": "new", "settings": STEERED + FASTER, "seconds": 5})
    assert commands.policy is before
    commands.answer({"command": "try", "name": "new", "settings": PATHS + FASTER, "seconds": 5})
    assert [rule.name for rule in commands.policy.rules] == ["faster"]


def test_a_policy_that_is_no_text_is_refused_as_other_requests_that_are_none(commands: Commands) -> None:
    with pytest.raises(control.REFUSED):
        commands.answer({"command": "try", "name": "new", "settings": {}, "seconds": 5})


@pytest.mark.parametrize("value", ["5mbit", "2026-12-01", 5000 * "2", 5000 * "["])
def test_what_no_request_can_carry_is_set_as_text_for_the_daemon_to_refuse(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def ask(_control: object, _command: str, rule: object, **_more: object) -> control.Response:
        asked.append(rule)
        return {"rules": [], "elements_added": 0, "elements_removed": 0}

    monkeypatch.setattr(control.Control, "ask", ask)
    cli.main(["set", "slow", f"rate={value}"])
    assert asked == [{"name": "slow", "rate": value}]
