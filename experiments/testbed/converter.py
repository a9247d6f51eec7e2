"""A native converter on any node: its settings, and its process."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import tomli_w

from experiments.testbed import native
from experiments.testbed.node import Node, Process

Listener = Mapping[str, object]


def settings(
    node: Node, name: str, clients: Sequence[str], *listeners: Listener, **tables: Mapping[str, object]
) -> str:
    """Those of one called ``name`` that serves ``clients``, which are networks, with more ``tables``."""
    document = {
        "clients": {"networks": list(clients)},
        "control": {"socket": f"{node.directory}/{name}.sock"},
        "timeouts": {"drain": "1s"},
        "listen": list(listeners),
    }
    return tomli_w.dumps(document | tables)


def command(node: Node, name: str, text: str, program: Path | None = None) -> list[str]:
    """What starts it with the settings ``text``: the ``program``, or that of this machine."""
    return [str(program or native.build().converter), "--config", str(node.write(f"{name}.toml", text))]


def start(node: Node, name: str, text: str, program: Path | None = None) -> Process:
    """It, ready; raises CommandError if it does not become so."""
    return node.start(name, command(node, name, text, program)).wait_until_ready()
