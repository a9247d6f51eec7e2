"""scripts/overlay: chains of graphs, and what is no graph."""

import json
from pathlib import Path

import pytest

from overlay.__main__ import main
from tests.refusals import command_error
from tributary import cargo
from tributary.paths import CACHE, ROOT
from tributary.settings.errors import Exit

pytestmark = pytest.mark.skipif(
    not cargo.works() and not (CACHE / "bin/overlay-paths").exists(),
    reason="missing: overlay-paths, and cargo to build it with",
)

GRAPHS = sorted((ROOT / "overlay/graphs").glob("*.intra"))
DETOUR = "A B 10  # or, longer by 2 ms and by no hop above 6\nA C 6\nC B 6\n"


@pytest.fixture
def detour(tmp_path: Path) -> str:
    path = tmp_path / "detour"
    path.write_text(DETOUR)
    return str(path)


@pytest.mark.parametrize(("rounds", "chain", "time"), [(1, ["A", "B"], 5.0), (5, ["A", "C", "B"], 30.0)])
def test_a_detour_is_taken_when_rounds_pay_for_it(
    detour: str, rounds: int, chain: list[str], time: float, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paths", detour, "A", "B", "--rounds", str(rounds), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["best"]["nodes"], answer["best"]["time_ms"]) == (chain, time)
    assert [each["nodes"] for each in answer["front"]] == [["A", "C", "B"], ["A", "B"]]


def test_the_chain_in_words(detour: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paths", detour, "A", "B"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("5 rounds, up to 465 kB: 30.0 ms; 45.0 ms without converters\n\n  A\n  C  6 ms\n")
    assert "10 ms    10 ms  45.0 ms  A B" in printed


def test_the_comparison(detour: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", detour, "--rounds", "1,10", "--json"]) == 0
    one, ten = json.loads(capsys.readouterr().out)["comparisons"]
    assert (one["minimax"]["worse_percent"][100], one["shortest"]["worse_percent"][100]) == (pytest.approx(20), 0)
    assert ten["minimax"]["worse_percent"][100] == 0 and ten["shortest"]["pairs_40_worse_percent"] > 30
    assert main(["simulate", detour]) == 0
    assert "3 nodes, 3 pairs" in capsys.readouterr().out


def test_chains_where_nodes_measure_only_some_others(capsys: pytest.CaptureFixture[str]) -> None:
    """On each of the Rocketfuel networks, by estimates; docs/overlay-paths.md has the figures."""
    told = []
    for graph in GRAPHS:
        assert main(["simulate", str(graph), "--rounds", "1,5,10", "--peers", "16", "--json"]) == 0
        sampled = json.loads(capsys.readouterr().out)["sampled"]
        assert sampled["peers"] == 16 and sampled["pairs_measured_percent"] < 40
        errors = sampled["error_percent"]
        longer = [each["estimated"]["mean_worse_percent"] for each in sampled["comparisons"]]
        told.append(f"{graph.stem}: median error {errors[50]:.1f} %, longer by {longer} %")
        assert errors[50] < 7
        assert max(longer) < 15
        assert longer[0] < sampled["comparisons"][0]["measured"]["mean_worse_percent"]
    print("\n".join(told))


def test_few_peers_in_words(detour: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", detour, "--rounds", "5", "--peers", "4"]) == 0
    printed = capsys.readouterr().out
    assert "if each node measures 4 others, 100.0 % of the pairs are measured\n   5 rounds by estimates" in printed


def test_the_map_has_the_links_in_use_and_the_chain(
    detour: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["map", detour, "A", "B", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["chain"] == ["A", "C", "B"]
    assert told["links"] == [{"a": "A", "b": "C", "pairs": 2}, {"a": "B", "b": "C", "pairs": 2}]
    assert told["delays_ms"] == [[0, 10, 6], [10, 0, 6], [6, 6, 0]]
    picture = tmp_path / "map.svg"
    assert main(["map", detour, "--output", str(picture)]) == 0
    assert capsys.readouterr().out == f"{picture}\n"
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("A B 1\nA B 2\n", "line 2: A B is 2 ms here and 1 ms in line 1: accepted: the same both ways"),
        ("A B 1\nC D 1\n", "line 2: no chain of links joins C to A: accepted: a graph in one piece"),
    ],
)
def test_what_is_no_graph_is_refused_with_its_line(text: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "graph"
    path.write_text(text)
    with command_error(Exit.BAD_DATA) as caught:
        main(["simulate", str(path)])
    assert str(caught.value) == f"{path}, {line}"


def test_a_graph_that_is_not_there_and_a_map_that_cannot_be_written_are_named(detour: str, tmp_path: Path) -> None:
    with command_error(Exit.NO_INPUT, "none: cannot be read"):
        main(["paths", str(tmp_path / "none"), "A", "B"])
    with command_error(Exit.SYSTEM, "cannot be written"):
        main(["map", detour, "--output", str(tmp_path / "no/map.svg")])


def test_a_node_that_is_not_there(detour: str) -> None:
    with command_error(Exit.USAGE) as caught:
        main(["paths", detour, "A", "D"])
    assert str(caught.value) == f"D is no node of {detour}: accepted: A, B, C"


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda path: str(path.stem))
def test_the_graphs_are_in_one_piece_and_as_their_readme_says(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(graph), "--rounds", "1", "--json"]) == 0
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    links = len(graph.read_text().splitlines()) // 2
    (row,) = (row for row in (graph.parent / "README.md").read_text().splitlines() if f"`{graph.name}`" in row)
    assert row.endswith(f"| {nodes} | {links} |")
