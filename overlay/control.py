"""The control plane, which the program of the Rust crate overlay/control is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tributary import cargo

PROGRAM = "tributary-overlay"
"""It answers ``status`` and ``explain``, and says what ``authorize`` and ``revoke`` have changed.

It ends with exit 69 if etcd does not answer, 64 for what is unknown, 64 or 75 if a name is refused, 77 if root is.
"""


def build() -> Path:
    """Builds the program; raises CommandError as ``cargo.build`` does."""
    return cargo.build(PROGRAM)[0]


def text(status: Mapping[str, Any]) -> str:
    """The status as text: the controller, what it refused, then a line for each node."""
    lines = [_controller(status), *(f"refused: {line}" for line in status["refused"])]
    tables = {table["ingress"]: table for table in status["tables"]}
    names = {"node", *tables, *(node["name"] for node in status["nodes"])}
    width = max(map(len, names))
    lines += ["", f"{'node':{width}}  {'agent':21} {'delays':>6} {'pressure':>8}  table"]
    for node in status["nodes"]:
        table = _table(tables.pop(node["name"], None)) + _routes(node["routes"])
        if node["estimated"]:
            table += f"; delays estimated: {node['estimated']}"
        if node["servers"]:
            table += f"; servers measured: {node['servers']}"
        if node["converter_silent"]:
            table += "; its converter does not answer"
        pressure = f"{node['pressure_percent']} %"
        lines.append(f"{node['name']:{width}}  {node['address']:21} {node['delays']:>6} {pressure:>8}  {table}")
    lines += [f"{name:{width}}  {'not alive':21} {'':>6} {'':>8}  {_table(table)}" for name, table in tables.items()]
    return "\n".join(lines)


def _controller(status: Mapping[str, Any]) -> str:
    if status["controller"] is None:
        return "controller: none; tables stay as they are"
    waiting = f"; waiting: {', '.join(status['waiting'])}" if status["waiting"] else ""
    computed = "never" if status["computed_s"] is None else f"{status['computed_s']} s ago"
    return f"controller: {status['controller']}, last computed: {computed}{waiting}"


def _table(table: Mapping[str, Any] | None) -> str:
    if table is None:
        return "none"
    return f"version {table['version']}, {table['age_s']} s old, chains to {table['egresses']}"


def _routes(routes: Mapping[str, Any] | None) -> str:
    if routes is None:
        return ""
    if routes["version"] is None:
        return "; in use: none"
    return f"; in use: version {routes['version']}, {routes['age_s']} s old"
