"""Whose a testbed is: names and locks, without a network."""

import os
import subprocess
from pathlib import Path

import pytest

from experiments.testbed import build
from experiments.testbed.build import alone, take_down_orphans
from experiments.testbed.links import kernel_has_netem
from experiments.testbed.node import Node
from tributary.daemons.directories import lock_file
from tributary.settings.errors import CommandError, Exit


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is /run to the testbeds of a machine that has no namespaces."""
    monkeypatch.setattr(build, "_RUN", tmp_path)
    monkeypatch.setattr(build, "_all_namespaces", list)
    return tmp_path


def test_the_testbeds_of_a_name_are_one_command_s_also_between_one_and_the_next(run: Path) -> None:
    with alone("mine"), alone("other"):
        with pytest.raises(CommandError, match="another command measures on testbeds 'mine'") as caught, alone("mine"):
            pass
        assert caught.value.code == Exit.IN_USE
        assert build.names() == []
    assert [*run.iterdir()] == []


def test_nobody_makes_a_testbed_anew_while_what_a_killed_run_left_of_it_goes(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "tributary-testbed-killed").mkdir()
    removed = build.take_down

    def take_down(name: str) -> None:
        with pytest.raises(BlockingIOError), lock_file(run / "tributary-testbeds.lock"):
            pass
        removed(name)

    monkeypatch.setattr(build, "take_down", take_down)
    assert take_down_orphans() == ["killed"]
    assert build.names() == []


@pytest.fixture
def deleted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The namespaces that were removed."""
    names: list[str] = []
    monkeypatch.setattr(Node, "delete", lambda node: names.append(node.namespace))
    return names


def test_a_probe_that_is_interrupted_while_it_is_made_leaves_nothing(
    deleted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(_node: Node) -> None:
        raise SystemExit(143)

    monkeypatch.setattr(Node, "create", create)
    with pytest.raises(SystemExit):
        kernel_has_netem()
    assert deleted == [f"tributary-probe-{os.getpid()}"]


def test_a_probe_goes_once_its_process_has(deleted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    namespaces = [f"tributary-probe-{pid}" for pid in (gone.pid, os.getpid())]
    monkeypatch.setattr(build, "_all_namespaces", lambda: namespaces)
    assert take_down_orphans() == []
    assert deleted == namespaces[:1]
