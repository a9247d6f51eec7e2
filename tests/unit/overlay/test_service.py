import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path

import pytest

from tests.refusals import command_error

pytest.importorskip("prometheus_client")

from overlay.reader import service
from overlay.reader.service import Reader
from tests.unit.overlay.test_reading import LINE, node, status
from tributary.daemons.logs import Log, as_text
from tributary.settings.errors import Exit


class World:
    def __init__(self, program: Path, thread: ThreadPoolExecutor) -> None:
        self._program = program
        self._thread = thread
        self.logged = StringIO()
        self.reader = Reader(["sh", str(program)], thread, Log(as_text, self.logged))

    def read(self, printed: object) -> None:
        """The next reading, of an answer that is this."""
        self.run(f"echo '{json.dumps(printed)}'")

    def run(self, script: str) -> None:
        """The next reading, by a program that does this."""
        self._program.write_text(script)
        # A turn takes what was read, and begins the next reading.
        for _ in range(2):
            self.reader.turn()
            self._thread.submit(lambda: None).result()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    monkeypatch.setattr(service, "INTERVAL", 0.0)
    monkeypatch.setattr(service, "REST", 0.0)
    with ThreadPoolExecutor(1) as thread:
        yield World(tmp_path / "program", thread)


FAR = status(node("a", b=1e200), node("b"))
"""The square of the delay is none that a float has."""


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (FAR, "OverflowError"),
        (status({**node("a"), "round_trip_ms": [1]}), "AttributeError"),
        (status({**node("a"), "name": None}, node("b")), "valid string"),
        ({"nodes": []}, "KeyError('controller')"),
        ([], "TypeError"),
    ],
)
def test_an_answer_that_is_wrong_is_the_problem_and_the_last_map_stays(world: World, answer: object, why: str) -> None:
    world.read(status(*LINE))
    assert (world.reader.document.problem, world.reader.document.nodes_total) == (None, 3)
    world.read(answer)
    seen = world.reader.document
    assert seen.problem is not None and why in seen.problem
    assert [each.name for each in seen.nodes] == ["a", "b", "c"]
    assert world.logged.getvalue().count("not read") == 1
    world.read(status(*LINE[:2]))
    assert (world.reader.document.problem, world.reader.document.nodes_up) == (None, 2)


def test_chains_grow_old_while_nothing_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert world.reader.document.computed is None
    world.read(status(*LINE))
    world.run("exit 69")
    later = time.monotonic() + 100
    monkeypatch.setattr(time, "monotonic", lambda: later)
    computed = world.reader.document.computed
    assert computed is not None and 100 < computed - 2 < 130


def test_what_takes_long_to_read_is_read_less_often(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "REST", 10.0)
    monkeypatch.setattr(service, "_processor_time", iter([5.0, 8.0]).__next__)
    world.read(status(*LINE))
    assert 20 < world.reader.deadline - time.monotonic() <= 30


def test_what_the_program_says_is_the_problem_and_wrong_arguments_end_the_reader(world: World) -> None:
    world.run("echo etcd does not answer >&2; exit 69")
    assert world.reader.document.problem == "etcd does not answer"
    world.run("exit 71")
    assert world.reader.document.problem == "exit code 71"
    with command_error(Exit.USAGE, "accepted: with --identity FOLDER"):
        world.run("echo 'https://192.0.2.1:2379: accepted: with --identity FOLDER' >&2; exit 64")
