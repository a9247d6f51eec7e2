"""The API's description in OpenAPI 3.1, made from the calls and their types."""

from collections.abc import Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from console.api import Call
from console.door import COOKIE
from tributary.api.console import Message, Refusal
from tributary.api.documents import VERSION

_SCHEMAS = "#/components/schemas/{model}"
_ABOUT = "POST is for the page's own `Origin` alone."
_EVENTS = {"description": "done", "content": {"text/event-stream": {"schema": {"type": "string"}}}}


def document(calls: Sequence[Call]) -> dict[str, Any]:
    """The whole description."""
    models: dict[str, type[Message]] = {Refusal.__name__: Refusal}
    for call in calls:
        models |= {each.__name__: each for each in (call.asked, call.answers) if each is not None}
    _, schemas = models_json_schema([(each, "validation") for each in models.values()], ref_template=_SCHEMAS)
    paths: dict[str, Any] = {}
    for call in calls:
        paths.setdefault(f"/api/v1/{call.path}", {})[call.method.lower()] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tributary console", "version": str(VERSION), "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "login": {"type": "apiKey", "in": "cookie", "name": COOKIE},
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(call: Call) -> dict[str, Any]:
    inside = [part[1:-1] for part in call.path.split("/") if part.startswith("{")]
    found: dict[str, Any] = {
        "summary": call.about,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in inside),
            *({"name": name, "in": "query", "schema": schema} for name, schema in (call.parameters or {}).items()),
        ],
        "responses": {
            _code(call): _EVENTS if call.streams else _content("done", call.answers),
            "4XX": _content("refused", Refusal),
            "5XX": _content("not possible, such as where a daemon does not answer (503)", Refusal),
        },
    }
    if call.needs != "nothing":
        found["security"] = [{"login": []}] if call.needs == "managing" else [{"login": []}, {"token": []}, {}]
    if call.asked is not None:
        found["requestBody"] = {"required": True, **_content(None, call.asked)}
    return found


def _code(call: Call) -> str:
    return "204" if call.answers is None and call.method == "POST" else "200"


def _content(description: str | None, model: type[Message] | None) -> dict[str, Any]:
    said = {"description": description} if description else {}
    if model is None:
        return said
    return {**said, "content": {"application/json": {"schema": {"$ref": _SCHEMAS.format(model=model.__name__)}}}}
