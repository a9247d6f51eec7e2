"""What scripts/overlay says of the control plane; what it does runs on the real etcd, in tests/netns."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from overlay import __main__ as command
from overlay import control

QUIET = {
    "converter": None,
    "converter_silent": False,
    "pressure_percent": 0,
    "delays": 0,
    "estimated": 0,
    "servers": 0,
    "routes": None,
}
LONDON = {"converter": "192.0.2.1:5124", "pressure_percent": 35, "delays": 2, "routes": {"version": 40, "age_s": 70}}
NODES = [
    QUIET | {"name": "london", "address": "192.0.2.1:5460"} | LONDON,
    QUIET | {"name": "milan", "address": "192.0.2.2:5460", "converter_silent": True, "delays": 1},
    QUIET
    | {"name": "paris", "address": "192.0.2.3:5460", "estimated": 5, "servers": 3}
    | {"routes": {"version": None, "age_s": None}},
]
TABLES = [
    {"ingress": "london", "version": 41, "age_s": 12, "egresses": 1},
    {"ingress": "oslo", "version": 7, "age_s": 900, "egresses": 2},
]
STATUS = {
    "controller": "c1",
    "waiting": ["c2"],
    "computed_s": 3,
    "refused": ["new tables: 100 % of the other pairs would have no way but through milan: accepted: 90 %"],
    "nodes": NODES,
    "tables": TABLES,
}
TEXT = """\
controller: c1, last computed: 3 s ago; waiting: c2
refused: new tables: 100 % of the other pairs would have no way but through milan: accepted: 90 %

node    agent                 delays pressure  table
london  192.0.2.1:5460             2     35 %  version 41, 12 s old, chains to 1; in use: version 40, 70 s old
milan   192.0.2.2:5460             1      0 %  none; its converter does not answer
paris   192.0.2.3:5460             0      0 %  none; in use: none; delays estimated: 5; servers measured: 3
oslo    not alive                              version 7, 900 s old, chains to 2
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """By which arguments etcd was reached."""
    asked: list[str] = []

    def ask(_command: str, reached: Sequence[str]) -> Any:
        asked.append(" ".join(reached))
        return STATUS

    monkeypatch.setattr(control, "ask", ask)
    return asked


def test_the_status_in_words_and_as_json(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["status"]) == 0
    assert capsys.readouterr().out == TEXT
    assert command.main(["status", "--json", "--endpoints", "https://192.0.2.9:2379", "--identity", "id"]) == 0
    assert json.loads(capsys.readouterr().out) == STATUS
    assert command.main(["status", "--endpoints", "http://192.0.2.9:2379", "--insecure-transport"]) == 0
    assert asked == [
        "--endpoints=http://127.0.0.1:2379",
        "--endpoints=https://192.0.2.9:2379 --identity=id",
        "--endpoints=http://192.0.2.9:2379 --insecure-transport",
    ]


def test_nobody_there() -> None:
    nothing = STATUS | {"controller": None, "waiting": [], "refused": [], "nodes": [], "tables": []}
    assert control.text(nothing).splitlines()[0] == "controller: none; tables stay as they are"
