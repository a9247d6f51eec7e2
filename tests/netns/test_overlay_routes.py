from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from experiments.testbed import native
from tests.netns.overlay_world import ETCD, Overlay, converter, until
from tests.netns.world import needs
from tributary.settings.errors import Exit

pytestmark = needs("etcd", "curl")

B, C = map(converter, "BC")
BY_C = f"203.0.113.0/24  {C} {B} or {B} or direct"
TO_B = f"203.0.113.0/24  {B} or direct"
B_FIRST = f"203.0.113.0/24  {B} or {C} {B} or direct"


@dataclass
class Ingress:
    """The agent of A, and its files."""

    overlay: Overlay

    @property
    def directory(self) -> Path:
        return self.overlay.node.directory

    @property
    def egresses(self) -> Path:
        return self.directory / "egresses"

    @property
    def reloads(self) -> Path:
        """A line for each."""
        return self.directory / "reloads"

    def put_egresses(self, text: str) -> None:
        """Have it read others."""
        self.egresses.write_text(text)
        self.overlay.hang_up("A")

    def output(self) -> str:
        return self.overlay.processes["A"].output()

    def has(self, *lines: str) -> float:
        """Wait until these are the routes of transfers whose size is not known; returns the seconds that it took."""
        return until(lambda: self.lines() == [*lines])

    def explained(self, *words: str) -> Any:
        return self.overlay.asked("explain", "A", *words)

    def start(self) -> None:
        """Starts it with a converter that counts its reloads."""
        files = ["--routes", str(self.directory / "run/routes"), "--egresses", str(self.egresses)]
        self.overlay.agent("A", 11, *files, "--reload", f"echo reload >>{self.reloads}")

    def lines(self) -> list[str]:
        """The routes of transfers whose size is not known."""
        return [line for line in self.all_lines() if " above " not in line]

    def all_lines(self) -> list[str]:
        """The routes, without the comment in front."""
        try:
            return (self.directory / "run/routes").read_text().splitlines()[1:]
        except FileNotFoundError:
            return []

    def in_use(self) -> Any:
        """What the status says that its converter goes by."""
        (node,) = (node for node in self.overlay.status()["nodes"] if node["name"] == "A")
        return node["routes"]


@pytest.fixture
def ingress(empty: Overlay) -> Ingress:
    """To 203.0.113.0/24 by way of B, to which a detour by way of C pays off."""
    made = Ingress(empty)
    made.egresses.write_text("203.0.113.0/24 B\n")
    empty.etcd()
    empty.controller("c1")
    empty.measured("B", A=20, C=8)
    empty.measured("C", A=12)
    made.start()
    made.has(BY_C)
    return made


def test_a_dead_node_is_out_within_3_s_and_the_status_says_what_is_in_use(ingress: Ingress) -> None:
    overlay = ingress.overlay
    until(lambda: (ingress.in_use() or {}).get("version") == overlay.tables()["A"]["version"])
    assert ingress.in_use()["age_s"] < 60
    reloads = len(ingress.reloads.read_text())
    # A dead agent's key goes after one to two seconds (test_overlay_control.py); what is left of three:
    overlay.delete("nodes/C")
    assert ingress.has(TO_B) < 2
    until(lambda: ingress.in_use()["version"] == overlay.tables()["A"]["version"])
    assert len(ingress.reloads.read_text()) > reloads


def test_without_etcd_or_agent_the_routes_stay(ingress: Ingress) -> None:
    overlay = ingress.overlay
    overlay.kill("etcd")
    until(lambda: ingress.output().count("trying again") >= 2)
    assert ingress.lines() == [BY_C]
    overlay.etcd()
    overlay.delete("nodes/C")
    ingress.has(TO_B)
    overlay.processes["A"].stop()
    until(lambda: "A" not in overlay.tables())
    assert ingress.lines() == [TO_B]


def test_without_etcd_and_a_file_all_lines_are_direct_and_the_converter_is_told(empty: Overlay) -> None:
    """As on an ingress that starts while etcd is away: its converter does not start without the file."""
    ingress = Ingress(empty)
    ingress.egresses.write_text("203.0.113.0/24 B\n198.51.100.0/24 C\n")
    ingress.start()
    ingress.has("203.0.113.0/24  direct", "198.51.100.0/24  direct")
    until(ingress.reloads.exists)
    empty.etcd()
    until(lambda: empty.values("routes/") == {"A": {"version": None, "made": None}})
    assert ingress.lines() == ["203.0.113.0/24  direct", "198.51.100.0/24  direct"]


def test_a_reload_that_fails_is_tried_again_disturbs_nobody_else_and_shuts_out_no_change(ingress: Ingress) -> None:
    # From now on nobody can write where reloads are counted.
    ingress.reloads.unlink()
    ingress.reloads.mkdir()
    published = ingress.overlay.found("egresses/")["A"]
    ingress.overlay.delete("nodes/C")
    until(lambda: ingress.output().count("Is a directory; trying again") >= 3)
    assert ingress.lines() == [TO_B]
    assert ETCD not in ingress.output(), "it is no fault of etcd's"
    assert ingress.overlay.found("egresses/")["A"] == published
    ingress.put_egresses("198.51.100.0/24 B\n")
    ingress.has(f"198.51.100.0/24  {B} or direct")
    ingress.reloads.rmdir()
    until(ingress.reloads.exists)
    assert ingress.overlay.found("egresses/")["A"]["version"] != published["version"]


def test_egresses_are_read_anew_and_wrong_ones_change_nothing(ingress: Ingress) -> None:
    ingress.put_egresses("203.0.113.0/24 B 1\n")
    ingress.has(B_FIRST)
    ingress.put_egresses("203.0.113.0/24 B 99\n")
    until(lambda: "egresses:1: 99: accepted: rounds from 1 to 30" in ingress.output())
    assert ingress.lines() == [B_FIRST]
    ingress.overlay.processes["A"].stop()
    ingress.start()
    assert ingress.overlay.processes["A"].popen.wait(30) == Exit.BAD_DATA


def test_transfers_of_known_size_have_routes_of_their_own_and_the_explanation_says_why(ingress: Ingress) -> None:
    for_size = [
        f"203.0.113.0/24 above 0kB  {B} or {C} {B} or direct",
        f"203.0.113.0/24 above 15kB  {C} {B} or {B} or direct",
    ]
    assert ingress.all_lines() == [BY_C, *for_size]
    node = ingress.overlay.node
    config = node.write("converter.toml", f'[gateway]\nroutes_file = "{ingress.directory / "run/routes"}"\n')
    node.run(str(native.build().converter), "--check", "--config", str(config))
    answer = ingress.explained("203.0.113.7")
    assert answer["egress"] == {"to": "203.0.113.0/24", "node": "B", "rounds": 5}
    assert (answer["node"], answer["node_by"], answer["candidates"]) == ("B", "name", [])
    assert (answer["rounds"], answer["rounds_by"]) == (5, "network")
    assert [(way["nodes"], way["time_ms"]) for way in answer["chains"]] == [(["A", "C", "B"], 58), (["A", "B"], 90)]
    assert answer["direct"]["time_ms"] == 90
    sized = ingress.explained("203.0.113.7", "--bytes", "15000")
    assert (sized["chains"][0]["nodes"], sized["rounds_by"]) == (["A", "B"], "size")
    for words, exit_code, line in [
        (("A", "192.0.2.1"), Exit.USAGE, "192.0.2.1: no line of A's egresses covers it"),
        (("B", "192.0.2.1"), Exit.USAGE, "B is no ingress now: accepted: A"),
        (("A", "192.0.2.1", "--endpoints", "http://127.0.0.1:1"), Exit.UNAVAILABLE, "http://127.0.0.1:1: etcd: "),
    ]:
        code, output = ingress.overlay.refused("explain", *words)
        assert code == exit_code
        assert output.startswith(f"tributary-overlay: {line}")
    ingress.overlay.delete("nodes/C")
    until(lambda: ingress.all_lines() == [TO_B])
