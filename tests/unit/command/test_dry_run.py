"""What a dry run says is what the command itself would: it refuses what that refuses."""

from pathlib import Path

import pytest

from command import box, cli
from tests.refusals import command_error
from tests.unit.router import answer as routers
from tests.unit.throttler.answer import answer
from throttler.service.status import RuleStatus
from tributary.daemons.control import Control
from tributary.settings.errors import Exit

POLICY = '[paths.wired]\ninterface = "eth0"\n[[rules]]\nname = "slow"\nrate = "5mbit"\n'


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That of the running throttler."""
    own = tmp_path / "own.toml"
    own.write_text(POLICY)
    monkeypatch.setattr(box, "throttler", lambda: answer(policy=str(own)))
    monkeypatch.setattr(Control, "ask", lambda *_: {"policy": str(own)})
    return own


def saved(policy: Path, path: str) -> Path:
    """A limit of ``path`` that outlives a reload."""
    file = policy.with_suffix(".d") / f"limit-{path}.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f'[[rules]]\nname = "limit-{path}"\npath = "{path}"\nrate = "1mbit"\n')
    return file


@pytest.mark.usefixtures("policy")
def test_a_limit_of_no_path_is_refused_and_that_of_a_path_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["limit", "wired", "2mbit", "--dry-run"])
    assert capsys.readouterr().out == "# wired would get at most 2mbit\n"
    with command_error(Exit.USAGE, "PATH = 'nowhere': accepted: a path: wired"):
        cli.main(["limit", "nowhere", "2mbit", "--dry-run"])


def test_what_has_no_limit_can_lose_none(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with command_error(Exit.USAGE, "PATH = 'wired': accepted: a path with a limit"):
        cli.main(["limit", "wired", "none", "--dry-run"])
    file = saved(policy, "gone")
    cli.main(["limit", "gone", "none", "--dry-run"])
    assert file.exists()
    rule: RuleStatus = answer().rules[0].model_copy(update={"name": "limit-wired"})
    monkeypatch.setattr(box, "throttler", lambda: answer(policy=str(policy), rules=(rule,)))
    cli.main(["limit", "wired", "none", "--dry-run"])


def test_a_policy_is_tried_with_the_saved_limits_of_the_one_in_force(policy: Path, tmp_path: Path) -> None:
    trial = tmp_path / "throttler.toml"
    trial.write_text(POLICY)
    words = ["try", str(trial), "--dry-run"]
    # What stands beside the file itself has no part in it.
    saved(trial, "elsewhere")
    assert cli.main(words) == 0
    saved(policy, "wireless")
    with command_error(Exit.USAGE, "limit-wireless.toml", "path = 'wireless'"):
        cli.main(words)
    assert policy.read_text() == POLICY


@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_nothing_is_changed_of_a_link_without_a_cap_that_has_used_some_of_it(
    more: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(box, "router", routers.answer)
    monkeypatch.setattr(Control, "ask", lambda *_, **given: asked.append(given))
    with command_error(Exit.USAGE, "dsl: used=: accepted of a link with a monthly_cap"):
        cli.main(["link", "dsl", "use=backup", "used=1GB", *more])
    assert (asked, capsys.readouterr().out) == ([], "")
    cli.main(["link", "lte", "used=1GB", "--dry-run"])
    assert capsys.readouterr().out == "# lte would have used 1GB of its monthly cap\n"
