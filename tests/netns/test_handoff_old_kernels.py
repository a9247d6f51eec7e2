"""Switch and back ends on kernels that do not know socket options which only make connections quicker."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.handoff.network import Network
from experiments.testbed import native
from tests.netns import refusing_options
from tests.netns.handoff_world import SIZE, HandOff, at_work, needs_tools, pattern
from tests.netns.test_converter_old_kernels import OPTIONAL

pytestmark = needs_tools


def refusing(folder: Path, program: Path) -> Path:
    """The program behind a filter that refuses the options."""
    # A connection that is handed over must not be probed meanwhile: that option every kernel has.
    options = [f"{level}:{number}" for name, (level, number) in OPTIONAL.items() if name != "SO_KEEPALIVE"]
    command = shlex.join([sys.executable, refusing_options.__file__, *options, "--", str(program)])
    script = folder / program.name
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture
def old(handoff_network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HandOff]:
    real = handoff_network.programs
    programs = native.HandOff(refusing(tmp_path, real.switch), refusing(tmp_path, real.back_end))
    monkeypatch.setattr(Network, "programs", property(lambda _: programs))
    with at_work(handoff_network) as world:
        yield world


def test_requests_are_handed_over_where_the_kernel_refuses_what_makes_them_quicker(
    old: HandOff, tmp_path: Path
) -> None:
    assert old.fetch([f"a/{SIZE}", "b/1000"], tmp_path) == [pattern("a", SIZE), pattern("b", 1000)]
