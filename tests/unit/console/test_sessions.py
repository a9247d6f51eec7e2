"""Which sessions the API asks the throttler for."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from starlette.requests import Request

from command import box
from command.show import Listed
from console import api
from console.api import Api
from console.door import COOKIE, Door
from console.settings import ConsoleSettings
from tests.unit.throttler.answer import answer
from throttler.service.query import SessionQuery, check
from tributary.api.documents import Session
from tributary.daemons.control import Silent
from tributary.settings.errors import CommandError, Exit
from tributary.settings.privacy import Privacy

SESSIONS = answer().sessions
ROUTERS = [
    {"name": "berlin", "addresses": ["10.84.0.17", "10.84.0.18"]},
    {"name": "bonn", "addresses": ["10.84.0.33", "10.84.0.49"]},
]
Ask = Callable[..., tuple[int, Any]]


@pytest.fixture(autouse=True)
def queries(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the throttler is asked for; it finds all that it has."""
    asked: list[dict[str, Any]] = []

    def sessions(**query: Any) -> Listed[Session]:
        asked.append(query)
        return Listed(SESSIONS, 0.0, len(SESSIONS))

    monkeypatch.setattr(box, "Answers", lambda _patience: SimpleNamespace(sessions=sessions))
    return asked


class Gateway:
    """A gateway's service: what it answers, and how often it was asked."""

    def __init__(self) -> None:
        self.routers, self.asked = ROUTERS, 0
        self.failure: CommandError | None = None

    def ask(self, _command: str) -> dict[str, Any]:
        self.asked += 1
        if self.failure:
            raise self.failure
        return {"routers": self.routers}


@pytest.fixture(autouse=True)
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    made = Gateway()
    monkeypatch.setattr(api, "_GATEWAY", made)
    return made


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets seconds pass."""
    now = [time.monotonic()]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


@pytest.fixture
def seen() -> SimpleNamespace:
    """The console's last look."""
    return SimpleNamespace(sessions=Listed(SESSIONS, 0.0, len(SESSIONS)), privacy="full")


@pytest.fixture
def ask(tmp_path: Path, seen: SimpleNamespace) -> Ask:
    """Asks as who has logged in; without, where the query begins with ``-``."""

    async def latest() -> Any:
        return seen

    looking: Any = SimpleNamespace(latest=latest)
    nobody: Any = None

    enrolled, revoked = AsyncMock(return_value={"settings": "", "notes": []}), AsyncMock(return_value={"notes": []})
    changes: Any = SimpleNamespace(enrol=enrolled, revoke=revoked)
    door = Door(tmp_path, ConsoleSettings(), print)
    secret = door._logins.login("ada", "127.0.0.1", time.monotonic())
    made = Api(looking, nobody, changes, nobody, door, print)

    def answered(query: str, call: str = "sessions", sent: str = "") -> tuple[int, Any]:
        (route,) = [each for each in made.routes() if each.path == f"/api/v1/{call}"]
        cookie = b"" if query.startswith("-") else f"{COOKIE}={secret}".encode()
        scope: dict[str, Any] = {"type": "http", "method": "GET", "path": route.path, "client": ("127.0.0.1", 1)}
        headers = [(b"cookie", cookie), (b"content-type", b"application/json")]
        scope |= {"query_string": query.removeprefix("-").encode(), "headers": headers}

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": sent.encode()}

        response = asyncio.run(route.endpoint(Request(scope, receive)))
        return response.status_code, json.loads(response.body)

    return answered


@pytest.mark.parametrize(
    ("query", "clients"),
    [
        ("client=192.0.2.0/24", ["192.0.2.0/24"]),
        ("router=berlin", ["10.84.0.16/28"]),
        ("router=bonn", ["10.84.0.32/28", "10.84.0.48/28"]),
        ("router=bonn&client=10.84.0.48/30", ["10.84.0.48/30"]),
        ("router=berlin&client=10.0.0.0/8", ["10.84.0.16/28"]),
    ],
)
def test_clients_are_asked_for_by_network_and_by_home_router(
    query: str, clients: list[str], ask: Ask, queries: list[dict[str, Any]]
) -> None:
    status, found = ask(query)
    assert (status, found["total"]) == (200, len(SESSIONS))
    assert [each["clients"] for each in queries] == [clients]


def test_no_client_is_both_of_a_router_and_of_a_network_elsewhere(ask: Ask, queries: list[dict[str, Any]]) -> None:
    for client in ("192.0.2.1", "2001:db8::/32"):
        status, found = ask(f"router=berlin&client={client}")
        assert (status, found["total"], queries) == (200, 0, [])


def test_whose_tunnels_are_whose_is_for_who_has_logged_in_and_of_enrolled_routers(
    ask: Ask, queries: list[dict[str, Any]]
) -> None:
    status, found = ask("-router=berlin")
    assert (status, queries) == (401, []) and "log in first" in found["error"]
    assert ask("-client=192.0.2.0/24")[0] == 200
    status, found = ask("router=paris")
    assert (status, found["error"]) == (400, "router = 'paris': accepted: berlin, bonn")


def test_the_gateway_is_asked_for_its_routers_once_in_ten_seconds_for_all_pages(
    ask: Ask, gateway: Gateway, passed: Callable[[float], None]
) -> None:
    for _ in range(5):
        assert (ask("router=berlin")[0], ask("router=bonn")[0], gateway.asked) == (200, 200, 1)
        passed(1.9)
    passed(1)
    assert (ask("router=berlin")[0], gateway.asked) == (200, 2)


@pytest.mark.parametrize("call", ["enrol", "revoke"])
def test_it_is_asked_anew_after_a_router_is_let_in_or_no_longer(call: str, ask: Ask, gateway: Gateway) -> None:
    assert ask("router=berlin")[0] == 200
    gateway.routers = ROUTERS[1:]
    assert ask("", call, '{"name": "berlin"}')[0] == 200
    assert (ask("router=berlin")[0], gateway.asked) == (400, 2)


def test_while_it_is_silent_sessions_are_found_by_what_it_said_before(
    ask: Ask, gateway: Gateway, passed: Callable[[float], None]
) -> None:
    assert ask("router=berlin")[0] == 200
    passed(10)
    gateway.failure = Silent("the gateway's service does not answer")
    assert [ask("router=berlin")[0] for _ in range(3)] == [200] * 3 and gateway.asked == 2


def test_nobody_waits_for_a_failure_twice(ask: Ask, gateway: Gateway, passed: Callable[[float], None]) -> None:
    gateway.failure = CommandError(Exit.UNAVAILABLE, "no gateway's service runs")
    for _ in range(3):
        assert ask("router=berlin") == (503, {"error": "no gateway's service runs"})
    assert gateway.asked == 1
    assert ask("client=192.0.2.0/24")[0] == 200
    gateway.failure = None
    passed(10)
    assert ask("router=berlin")[0] == 200


@pytest.mark.parametrize("privacy", ["network", "none"])
def test_where_clients_are_hidden_it_says_that_none_is_found_by_its_router(
    privacy: Privacy, ask: Ask, seen: SimpleNamespace, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(clients: Sequence[str], **_query: Any) -> None:
        check(SessionQuery.model_validate({"clients": clients}), privacy)

    monkeypatch.setattr(box, "Answers", lambda _patience: SimpleNamespace(sessions=refuse))
    seen.privacy = privacy
    line = "router = 'berlin': accepted: none, as sessions are found by router only where privacy = 'full'"
    assert (ask("router=berlin"), gateway.asked) == ((400, {"error": line}), 0)
    assert ask("-router=berlin")[0] == 401
    status, found = ask("client=192.0.2.1")
    assert status == 400 and "clients = '192.0.2.1" in found["error"] and f"privacy = '{privacy}'" in found["error"]
