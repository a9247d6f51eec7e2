"""What scripts/overlay says of the control plane and its chains; what it does runs on the real etcd, in tests/netns."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from overlay import __main__ as command
from overlay import control, explanation

COUNTS = ("pressure_percent", "delays", "estimated", "servers")
QUIET = {"converter": None, "converter_silent": False, "routes": None} | dict.fromkeys(COUNTS, 0)
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


DIRECT = {"nodes": ["london", "milan"], "hops_ms": [20.0], "hops_estimated": [False], "time_ms": 90.0}
DETOUR: dict[str, Any] = {
    "nodes": ["london", "paris", "milan"],
    "hops_ms": [12.0, 8.0],
    "hops_estimated": [False, False],
    "time_ms": 58.0,
}
ANSWER: dict[str, Any] = {
    "ingress": "london",
    "server": "192.0.2.9",
    "node": "milan",
    "node_by": "name",
    "candidates": [],
}
ANSWER |= {"egress": {"to": "192.0.2.0/24", "node": "milan", "rounds": 5}, "rounds": 5, "rounds_by": "network"}
ANSWER |= {"version": 41, "chains": [DETOUR, DIRECT], "direct": DIRECT}
EXPLANATION = """\
192.0.2.9 has the egress milan, by 192.0.2.0/24
5 rounds, up to 465 kB, by the server's network
58.0 ms; 90.0 ms without converters

  london
  paris  12.0 ms
  milan  8.0 ms

      time  chain, by version 41 of the table, in the order in which they are tried
   58.0 ms  london paris milan
   90.0 ms  london milan
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the programs that read etcd were asked."""
    asked: list[str] = []

    def ask(_program: str, words: Sequence[str]) -> Any:
        asked.append(" ".join(words[1:]))
        return {"status": STATUS, "explain": ANSWER}[words[0]]

    monkeypatch.setattr(command, "ask", ask)
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


def test_the_explanation_in_words_and_as_json(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["explain", "london", "192.0.2.9"]) == 0
    assert capsys.readouterr().out == EXPLANATION
    words = ["explain", "london", "192.0.2.9", "--port", "443", "--size", "100kB", "--json"]
    words += ["--endpoints", "http://192.0.2.1:2379"]
    assert command.main(words) == 0
    assert json.loads(capsys.readouterr().out) == ANSWER
    assert asked == [
        "--endpoints=http://127.0.0.1:2379 -- london 192.0.2.9",
        "--endpoints=http://192.0.2.1:2379 --port=443 --bytes=100000 -- london 192.0.2.9",
    ]


def test_what_is_out_of_the_ordinary_is_said() -> None:
    other = explanation.text({**ANSWER, "rounds": 3, "rounds_by": "size"})
    assert "3 rounds, up to 105 kB, as asked for; the routes of london are for 5 rounds\n" in other
    by_port = explanation.text({**ANSWER, "rounds_by": "port", "egress": {**ANSWER["egress"], "port": 443}})
    assert by_port.startswith(
        "192.0.2.9 has the egress milan, by 192.0.2.0/24 port 443\n5 rounds, up to 465 kB, by the se"
    )
    unknown = {**DETOUR, "hops_ms": [12.0, None], "time_ms": None}
    assert "\n   unknown  london paris milan" in explanation.text({**ANSWER, "chains": [unknown]})
    estimated = {**DETOUR, "hops_estimated": [False, True]}
    assert "\n  paris  12.0 ms\n  milan  8.0 ms, estimated\n" in explanation.text({**ANSWER, "chains": [estimated]})
    without: dict[str, Any] = {**ANSWER, "chains": []}
    cases = [
        (without, "version 41 of its table has no chain to milan"),
        ({**without, "version": None}, "it has no table yet"),
        ({**without, "node": "london"}, "it is the egress"),
    ]
    for answer, why in cases:
        assert explanation.text(answer).endswith(f"\nlondon connects to it: {why}")


def candidate(node: str, passable: bool, servers: float | None, time: float | None) -> dict[str, Any]:
    return {"node": node, "passable": passable, "to_servers_ms": servers, "time_ms": time}


def test_of_several_nodes_the_one_is_named_with_the_figures_of_all() -> None:
    candidates = [
        candidate("oslo", True, 40.0, 186.0),
        candidate("milan", True, 4.0, 60.0),
        candidate("rome", False, 2.0, None),
        candidate("nice", True, None, None),
    ]
    measured = explanation.text({**ANSWER, "node_by": "measurement", "candidates": candidates})
    assert measured.splitlines()[:5] == [
        "192.0.2.9 has the egress milan, by 192.0.2.0/24, as measured",
        "  oslo: 40.0 ms from the servers; a transfer through it takes 186.0 ms",
        "  milan: 4.0 ms from the servers; a transfer through it takes 60.0 ms",
        "  rome: dead, or its converter does not answer",
        "  nice: its delay to the servers is not measured",
    ]
    assert "\n  milan  8.0 ms\n  192.0.2.9  4.0 ms\n" in measured
    unmeasured = [candidate("milan", True, None, None), candidate("nice", True, None, None)]
    first = explanation.text({**ANSWER, "node_by": "order", "candidates": unmeasured})
    assert first.startswith(
        "192.0.2.9 has the egress milan, by 192.0.2.0/24, the first of these that is alive: not measured"
    )
