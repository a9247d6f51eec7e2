from pathlib import Path
from typing import Any

import pytest

from command import trial
from command.lists import Interval
from tributary.settings.errors import Exit


class Daemon:
    """Has its settings in ``own``; ``asked`` is what it was asked to do."""

    def __init__(self, own: Path) -> None:
        self.own, self.asked = own, list[str]()

    def ask(self, command: str, **_: object) -> dict[str, Any]:
        self.asked.append(command)
        return {"policy": str(self.own)}


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("keeps", [True, False])
def test_settings_on_trial_are_kept_or_not_also_where_somebody_has_removed_the_file(
    is_there: bool, keeps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, daemon = tmp_path / "new.toml", Daemon(tmp_path / "throttler.toml")
    file.write_text("new")
    if is_there:
        daemon.own.write_text("old")
        daemon.own.chmod(0o640)
    monkeypatch.setattr(trial, "_PROGRAMS", {"throttler": (daemon, "policy")})
    monkeypatch.setattr(trial, "_is_confirmed", lambda _: keeps)
    code = trial._try(file, Interval.parse("60s"), "throttler", dry_run=False)
    assert (code, daemon.asked) == (0 if keeps else Exit.WRONG_RESULT, ["status", "try", "reload"])
    assert daemon.own.exists() is (is_there or keeps)
    if keeps:
        assert (daemon.own.read_text(), daemon.own.stat().st_mode & 0o777) == ("new", 0o640 if is_there else 0o600)
