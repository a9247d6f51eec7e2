import asyncio
from http import HTTPStatus
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.responses import Response

from console.guard import LARGEST_HEAD, Guard, refusal

OWN = ("192.0.2.1", 8480)


def scope(method: str = "GET", scheme: str = "http", server: tuple[str, int] = OWN, **headers: str) -> dict[str, Any]:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": method, "scheme": scheme, "server": server, "headers": named}


@pytest.mark.parametrize(
    ("server", "host", "scheme"),
    [
        (OWN, "192.0.2.1:8480", "http"),
        (OWN, "gw.example:8480", "http"),
        (OWN, "GW.example:8480", "http"),
        (OWN, "other.example:443", "http"),
        (("127.0.0.1", 8480), "localhost:8480", "http"),
        (("::1", 8480), "[::1]:8480", "http"),
        (("2001:db8::1", 80), "[2001:db8::1]", "http"),
        (("192.0.2.1", 443), "192.0.2.1", "https"),
    ],
)
def test_its_own_address_and_names_are_answered(server: tuple[str, int], host: str, scheme: str) -> None:
    names = ("gw.example", "other.example:443")
    assert refusal(scope(server=server, scheme=scheme, host=host), names) is None


@pytest.mark.parametrize(
    "host", ["", "evil.example:8480", "192.0.2.1", "192.0.2.1:80", "192.0.2.1:8480.evil.example", "localhost:8480"]
)
def test_a_name_that_leads_here_is_not_ours(host: str) -> None:
    refused = refusal(scope(host=host), ())
    assert refused is not None and refused[0] == HTTPStatus.MISDIRECTED_REQUEST


def test_two_hosts_are_none_and_heads_are_bounded() -> None:
    twice = scope(host="192.0.2.1:8480")
    twice["headers"] *= 2
    assert refusal(twice, ()) is not None and refusal(scope(), ()) is not None
    for length, is_refused in ((LARGEST_HEAD // 2, False), (LARGEST_HEAD, True)):
        refused = refusal(scope(host="192.0.2.1:8480", x="x" * length), ())
        assert (refused is not None and refused[0] == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) is is_refused


def post(**headers: str) -> tuple[HTTPStatus, str] | None:
    return refusal(scope("POST", "http", OWN, host="192.0.2.1:8480", **headers), ())


def test_a_change_comes_from_the_page_itself() -> None:
    own = "http://192.0.2.1:8480"
    assert post(origin=own, content_type="application/json") is None
    assert post(origin=own, content_type="application/json; charset=utf-8") is None
    for origin in ("http://evil.example", "https://192.0.2.1:8480", "null", f"{own}.evil.example", ""):
        refused = post(origin=origin, content_type="application/json")
        assert refused is not None and refused[0] == HTTPStatus.FORBIDDEN
    assert post(content_type="application/json") is not None


@pytest.mark.parametrize("host", ["192.0.2.1:8480", "evil.example"])
def test_every_answer_forbids_inline_scripts_frames_and_other_sites(host: str) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    asyncio.run(Guard(Response("page"), ())(scope(host=host), receive, send))
    headers = Headers(raw=sent[0]["headers"])
    policy = dict(each.split(" ", 1) for each in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'self'" and not policy.keys() & {"script-src", "style-src", "connect-src"}
    assert "unsafe" not in headers["content-security-policy"]
    assert (policy["frame-ancestors"], policy["base-uri"], policy["form-action"]) == ("'none'", "'none'", "'self'")
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert (policy["object-src"], headers["x-frame-options"]) == ("'none'", "DENY")
    assert headers["cache-control"] == "no-store"
