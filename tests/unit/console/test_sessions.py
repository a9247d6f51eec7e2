"""Which sessions the API asks the throttler for."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from command import box, mapping
from command.show import Listed
from console import api
from console.api import Api
from console.door import COOKIE, Door
from console.settings import ConsoleSettings
from tests.unit.throttler.answer import answer
from tributary.api.documents import Session

SESSIONS = mapping.sessions(answer())
ROUTERS = [
    {"name": "berlin", "addresses": ["10.84.0.17", "10.84.0.18"]},
    {"name": "bonn", "addresses": ["10.84.0.33", "10.84.0.49"]},
]
Ask = Callable[[str], tuple[int, Any]]


@pytest.fixture(autouse=True)
def queries(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the throttler is asked for; it finds all that it has."""
    asked: list[dict[str, Any]] = []

    def sessions(**query: Any) -> Listed[Session]:
        asked.append(query)
        return Listed(SESSIONS, 0.0, len(SESSIONS))

    monkeypatch.setattr(box, "Answers", lambda _patience: SimpleNamespace(sessions=sessions))
    monkeypatch.setattr(api, "_GATEWAY", SimpleNamespace(ask=lambda _command: {"routers": ROUTERS}))
    return asked


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Asks as who has logged in; without, where the query begins with ``-``."""

    async def latest() -> Any:
        return SimpleNamespace(sessions=Listed(SESSIONS, 0.0, len(SESSIONS)))

    looking: Any = SimpleNamespace(latest=latest)
    nobody: Any = None
    door = Door(tmp_path, ConsoleSettings(), print)
    secret = door._logins.login("ada", "127.0.0.1", time.monotonic())
    made = Api(looking, nobody, nobody, nobody, door, print)
    (route,) = [each for each in made.routes() if each.path == "/api/v1/sessions"]

    def answered(query: str) -> tuple[int, Any]:
        cookie = b"" if query.startswith("-") else f"{COOKIE}={secret}".encode()
        scope: dict[str, Any] = {"type": "http", "method": "GET", "path": route.path, "client": ("127.0.0.1", 1)}
        scope |= {"query_string": query.removeprefix("-").encode(), "headers": [(b"cookie", cookie)]}
        response = asyncio.run(route.endpoint(Request(scope)))
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


def test_whose_tunnels_are_whose_is_for_who_has_logged_in(ask: Ask, queries: list[dict[str, Any]]) -> None:
    status, found = ask("-router=berlin")
    assert (status, queries) == (401, []) and "log in first" in found["error"]
    assert ask("-client=192.0.2.0/24")[0] == 200


def test_a_router_that_is_not_enrolled_is_named_with_those_that_are(ask: Ask) -> None:
    status, found = ask("router=paris")
    assert (status, found["error"]) == (400, "router = 'paris': accepted: berlin, bonn")
