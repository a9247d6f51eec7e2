"""What calls of the API have in common: how they are read, answered and refused."""

import asyncio
from http import HTTPStatus
from typing import Literal, TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tributary.api.console import Message, Refusal

_LONGEST_BODY = 16 << 10
_BODY_TIMEOUT = 5.0

Needs = Literal["nothing", "reading", "managing"]
_M = TypeVar("_M", bound=Message)


class Refused(Exception):
    """A request that is answered with a status and a line that says what was wrong."""

    def __init__(self, status: HTTPStatus, line: str) -> None:
        super().__init__(line)
        self.status = status


async def body(request: Request, kind: str, most: int) -> bytes:
    """What was sent as the media type ``kind``, of which no more is read than it may have; raises Refused."""
    large = Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"accepted: {most} bytes")
    if int(request.headers.get("content-length", "0")) > most:
        raise large
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != kind:
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: accepted: {kind}")
    found = b""
    try:
        async with asyncio.timeout(_BODY_TIMEOUT):
            async for part in request.stream():
                found += part
                if len(found) > most:
                    raise large
    except TimeoutError as error:
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive") from error
    return found


async def read(request: Request, model: type[_M]) -> _M:
    """What was sent; raises Refused."""
    try:
        return model.model_validate_json(await body(request, "application/json", _LONGEST_BODY))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the request"
        raise Refused(HTTPStatus.BAD_REQUEST, f"{where}: {first['msg']}") from error


def number(request: Request, name: str, usual: int, most: int, least: int = 1) -> int:
    """A parameter that counts, from ``least`` to ``most``; raises Refused."""
    text = request.query_params.get(name, str(usual))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise Refused(HTTPStatus.BAD_REQUEST, f"{name} = {text[:40]!r}: accepted: {least} to {most}")
    return int(text)


def address(request: Request) -> str:
    """Where it comes from."""
    return request.client.host if request.client else ""


def answer(document: Message) -> Response:
    """The document as JSON."""
    return Response(document.model_dump_json(), media_type="application/json")


def failed(status: HTTPStatus, line: str) -> Response:
    """A line that says what was wrong."""
    return JSONResponse(Refusal(error=line).model_dump(), status)
