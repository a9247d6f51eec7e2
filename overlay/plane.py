"""The control plane: the programs of the Rust crates overlay/control and overlay/dns, and what the first says is so."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from overlay import programs


def build() -> Path:
    """The program; raises CommandError as ``programs.build`` does."""
    return programs.build("tributary-overlay", "--control")


def become(arguments: Sequence[str]) -> NoReturn:
    """Be the program from now on: an agent, or a controller."""
    _execute(build(), arguments)


def become_dns(arguments: Sequence[str]) -> NoReturn:
    """Be the name server from now on."""
    _execute(programs.build("overlay-dns", "--dns"), arguments)


def _execute(program: Path, arguments: Sequence[str]) -> NoReturn:
    os.execv(program, [str(program), *arguments])


def status(reached: Sequence[str]) -> Any:
    """What is so, by the etcd that is ``reached`` by these arguments; raises CommandError: exit 69 if it does not
    answer.
    """
    return json.loads(programs.answer(build(), ["status", *reached]))


def change(asked: Sequence[str]) -> Any:
    """What the program changed of etcd's users.

    Raises CommandError: exit 64 or 75 if a name is refused, 77 if root is, 69 without etcd.
    """
    return json.loads(programs.answer(build(), asked))


def reached(endpoints: str, identity: Path | None, insecure: bool) -> list[str]:
    """The arguments that say how etcd is reached: at URLs with commas between, with the identity in this folder."""
    secure = [f"--identity={identity}"] if identity else []
    return [f"--endpoints={endpoints}", *secure, *(["--insecure-transport"] if insecure else [])]


def text(status: Mapping[str, Any]) -> str:
    """The status for people: the controller, what it refused, then a line for each node."""
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
        return "; its converter: by none"
    return f"; its converter: by version {routes['version']}, {routes['age_s']} s old"
