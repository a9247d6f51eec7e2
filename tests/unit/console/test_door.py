import asyncio
from http import HTTPStatus
from http.cookies import Morsel, SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from console.access import LOGIN_LIFETIME, Attempts
from console.door import COOKIE, Door
from console.requests import Refused
from console.settings import ConsoleSettings
from tributary.api.console import Login


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path, ConsoleSettings(), print)


def request(scheme: str = "http", **headers: str) -> Request:
    named = [(name.encode(), value.encode()) for name, value in headers.items()]
    ends = {"client": ("192.0.2.1", 1), "server": ("192.0.2.2", 8480)}
    return Request({"type": "http", "scheme": scheme, "path": "/", "headers": named, **ends})


def login(door: Door, asked: Request, **proof: str) -> Response:
    return asyncio.run(door.login(asked, Login(**proof)))


def cookie(response: Response) -> Morsel[str]:
    return SimpleCookie(response.headers["set-cookie"])[COOKIE]


@pytest.mark.parametrize(("scheme", "is_secure"), [("http", ""), ("https", True)])
def test_no_script_and_no_other_site_gets_a_logins_cookie(door: Door, scheme: str, is_secure: Any) -> None:
    made = cookie(login(door, request(scheme), token=door.new_login("ada")))
    assert (made["httponly"], made["samesite"], made["secure"], made["domain"]) == (True, "strict", is_secure, "")
    assert made["max-age"] == str(int(LOGIN_LIFETIME))
    asked = request(cookie=f"{COOKIE}={made.value}")
    assert door.may(asked, "managing") and door.name(asked) == "ada"


def test_a_logout_ends_the_login_itself_and_takes_the_cookie_back(door: Door) -> None:
    asked = request(cookie=f"{COOKIE}={cookie(login(door, request(), token=door.new_login('ada'))).value}")
    taken = cookie(asyncio.run(door.logout(asked)))
    assert (taken.value, taken["max-age"]) == ("", "0")
    assert not door.may(asked, "managing")


def test_a_password_is_tried_so_often_and_a_token_works_meanwhile(door: Door) -> None:
    def status(**proof: str) -> HTTPStatus:
        with pytest.raises(Refused) as refused:
            login(door, request(), **proof)
        return refused.value.status

    tried = [status(password="correct horse") for _ in range(Attempts.AT_ONCE + 3)]
    assert tried == [HTTPStatus.FORBIDDEN] * Attempts.AT_ONCE + [HTTPStatus.TOO_MANY_REQUESTS] * 3
    assert status(token="guessed") == HTTPStatus.FORBIDDEN
    assert login(door, request(), token=door.new_login("ada")).status_code == HTTPStatus.NO_CONTENT


def test_a_programs_token_reads_and_no_more_where_reading_is_closed(tmp_path: Path) -> None:
    door = Door(tmp_path, ConsoleSettings(reading="closed"), print)
    asked = request(authorization=f"Bearer {door.new_token('grafana')}")
    assert (door.may(asked, "reading"), door.may(asked, "managing")) == (True, False)
    assert (door.may(request(), "reading"), door.may(request(), "nothing")) == (False, True)
    door.remove_token("grafana")
    assert not door.may(asked, "reading")
