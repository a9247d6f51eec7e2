"""What requests change, with a daemon that notes it."""

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from router.commands import Commands
from router.lan.tables import LanTables
from router.links.usage import Usage
from router.live_settings import LiveSettings
from router.settings import RouterSettings
from tests.unit.router.house import SETTINGS, settings
from tributary.api.places import ROUTER
from tributary.daemons import control
from tributary.daemons.logs import Format, to_stderr


class Noting:
    def __init__(self) -> None:
        self.done: list[object] = []

    def reload(self) -> None:
        self.done.append("reload")

    def change_settings(self, settings: RouterSettings) -> None:
        self.done.append(settings)

    def take_settings(self) -> None:
        self.done.append("take settings")

    def take_usage(self) -> None:
        self.done.append("take usage")


def asked(daemon: Noting, monkeypatch: pytest.MonkeyPatch, **request: Any) -> dict[str, Any]:
    """The answer to a request of root's."""
    monkeypatch.setattr(control, "_is_root", lambda _: True)
    live, log = LiveSettings(Path("router.toml"), settings()), to_stderr(Format.TEXT)
    status: Any = None
    commands = Commands(daemon, live, LanTables(Path("lan.nft")), status, Usage(), daemon.done.append, log)
    later = ROUTER.respond(json.dumps(request).encode(), None, commands.answer)  # type: ignore[arg-type]
    commands.turn()
    log.close()
    assert isinstance(later, Future)
    answer: dict[str, Any] = json.loads(later.result(0))
    return answer


def test_a_trial_has_its_end_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Noting()
    assert asked(daemon, monkeypatch, command="try", settings=SETTINGS, name="new.toml", seconds=8) == {}
    seconds, tried = daemon.done
    assert seconds == 8.0 and isinstance(tried, RouterSettings)


@pytest.mark.parametrize("given", [{}, {"seconds": "soon"}, {"seconds": float("inf")}, {"seconds": 10**400}])
def test_a_trial_without_an_end_changes_nothing(given: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Noting()
    assert "failure" in asked(daemon, monkeypatch, command="try", settings=SETTINGS, name="new.toml", **given)
    assert daemon.done == []


def test_settings_that_are_no_text_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Noting()
    answer = asked(daemon, monkeypatch, command="try", settings={}, name="new.toml", seconds=8)
    assert (answer["code"], daemon.done) == (64, [])
