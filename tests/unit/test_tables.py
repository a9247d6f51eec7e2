"""The pages' tables of settings, and of the API's documents, are made from the models.

A table follows a line ``<!-- settings: MODULE:MODEL [PREFIX] [FIRST..LAST] -->``: the model's own keys, with a prefix,
or some of them. To make them anew after a wanted change:
REMAKE_GOLDEN=1 scripts/python -m pytest tests/unit/test_tables.py
"""

import re
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic.fields import FieldInfo

from tests import golden
from tributary.api.documents import Document
from tributary.paths import ROOT
from tributary.settings.files import Settings

MARK = re.compile(
    r"^<!-- (?:settings|document): (\S+):(\S+?)(?: (\S+\.))?(?: (\w+)\.\.(\w+))? -->\n((?:[|-].*\n)*)", re.MULTILINE
)
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if MARK.search(page.read_text())]


def written(value: object) -> str:
    """As in a TOML file."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case Enum():
            return f'"{value.value}"'
        case list() | tuple():
            return f"[{', '.join(map(written, value))}]"
    # A single port is a number.
    return text if (text := str(value)).isdigit() else f'"{text}"'


def default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    return "none" if field.default is None or field.default in ((), []) else f"`{written(field.default)}`"


def quoted(text: str) -> str:
    """Values as TOML writes them, and no article in front."""
    text = re.sub(r"^(an?|the|a whole number from) ", "", text)
    return re.sub(r"(?<!\w)'([^']+)'(?!\w)", r'`"\1"`', text).replace("|", "\\|")


def type_of(schema: dict[str, Any]) -> str:
    """A field's type in JSON, from its JSON Schema."""
    if "anyOf" in schema:
        return " or ".join(map(type_of, schema["anyOf"]))
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "items" in schema:
        return f"list of {type_of(schema['items'])}"
    return str(schema["type"])


def fields(model: type[Document]) -> Iterator[str]:
    # What a base has is listed at the base.
    for name, schema in model.model_json_schema()["properties"].items():
        if name in model.__annotations__:
            yield f"- `{name}` ({type_of(schema)}): {schema['description']}"


def rows(model: type[Settings], prefix: str, first: str | None, last: str | None) -> Iterator[str]:
    yield "| key | default | meaning | accepted |"
    yield "|---|---|---|---|"
    own = [name for name in model.model_fields if name in model.__annotations__]
    chosen = own[own.index(first) : own.index(last) + 1] if first and last else own
    seen: dict[str, str] = {}
    for name in chosen:
        field = model.model_fields[name]
        if isinstance(field.default, Settings) or not field.title:
            continue  # a table of its own
        accepted = quoted(field.description or "")
        earlier = seen.setdefault(accepted, name)
        if isinstance(field.default, bool):
            accepted = ""
        elif earlier != name and len(accepted.split()) > 4:
            accepted = f"as `{prefix}{earlier}`"
        yield f"| `{prefix}{name}` | {default(field)} | {quoted(field.title)} | {accepted} |"


def made(page: Path) -> str:
    def remade(found: re.Match[str]) -> str:
        module, name, prefix, first, last, _ = found.groups()
        model = getattr(import_module(module), name)
        line = found[0].partition("\n")[0]
        table = fields(model) if issubclass(model, Document) else rows(model, prefix or "", first, last)
        return "\n".join((line, *table)) + "\n"

    return MARK.sub(remade, page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_table_says_what_the_settings_take(page: Path) -> None:
    golden.compare(page, made(page))


def test_there_are_such_tables() -> None:
    assert len(PAGES) >= 5
