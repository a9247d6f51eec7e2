"""Settings for other parts, as TOML. Pure."""

import json
from collections.abc import Mapping, Sequence

Value = str | int | bool | Sequence[str]
Table = tuple[str, Mapping[str, Value]]

HEAD = "# Written from tributary.toml on the boot partition, and written anew when that changes.\n"


def document(keys: Mapping[str, Value], *tables: Table) -> str:
    """A file: ``keys`` first, then each table under its header, such as '[probe]' or '[[listen]]'."""
    parts = [_keys(keys), *(f"{header}\n{_keys(table)}" for header, table in tables)]
    return HEAD + "".join(f"\n{part}" for part in parts if part)


def _keys(keys: Mapping[str, Value]) -> str:
    # A JSON string, number, truth or list of strings is one in TOML, too (TOML 1.0.0: strings, "basic strings").
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in keys.items())
