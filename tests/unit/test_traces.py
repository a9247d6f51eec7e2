import subprocess
import sys
from pathlib import Path

import pytest

from experiments.testbed.links import connect
from experiments.testbed.node import Node
from experiments.testbed.profile import PROFILES
from experiments.testbed.topology import Link, Profile, Topology
from experiments.testbed.trace import Trace
from tests.refusals import command_error
from tests.unit.test_topology import read_profile
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import check, load

TRACED = PROFILES / "dsl-lte-trace.toml"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """One packet each millisecond for half of its ten milliseconds: 6 Mbit/s on average, 12 at its best."""
    return written(tmp_path / "half.trace", "1\n2\n3\n4\n10\n")


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def link_of(**table: object) -> Link:
    return Topology.of(check({"links": {"lte": table}}, Profile, "p.toml")).links[0]


def test_the_rate_of_a_traced_direction_is_the_trace_s_mean(trace: Path) -> None:
    link = link_of(trace=str(trace), up={"rate": "1mbit"})
    assert (link.down.rate.amount, link.up.rate.amount) == (6_000_000, 1_000_000)
    assert (link.down.trace is not None, link.up.trace, link.traced) == (True, None, True)


def test_each_direction_may_have_a_trace_of_its_own(trace: Path, tmp_path: Path) -> None:
    slow = written(tmp_path / "slow.trace", "100\n")
    link = link_of(down={"trace": str(trace)}, up={"trace": str(slow)})
    assert (link.down.rate.amount, link.up.rate.amount) == (6_000_000, 120_000)


def test_a_trace_knows_its_period_and_its_best_moments(trace: Path) -> None:
    read = Trace.read(trace)
    assert read.period == 0.01
    assert read.peak(0.003) == 12e6
    assert read.peak(0.005) == pytest.approx(12e6)  # around its end: 10, 11, 12, 13 and 14 ms
    assert read.peak(0.01) == 6e6
    assert (read.turn(0.003), read.turn(0.01)) == (0.001, 0.002)


def test_the_best_moment_of_a_short_trace_is_as_good_as_all_of_it(tmp_path: Path) -> None:
    """One line is a constant rate: the window has many of its periods."""
    one_line = Trace.read(written(tmp_path / "one.trace", "1\n"))
    assert (one_line.peak(0.1), one_line.turn(0.1)) == (12e6, 0.001)
    assert Trace.read(written(tmp_path / "short.trace", "2\n3\n30\n")).peak(0.1) == pytest.approx(12 * 12e6 / 100)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no length: accepted: a trace whose last line is above 0 milliseconds"),
        ("0\n0\n", "has no length"),
        ("1\n\n3\n", "line 2 = '': accepted: a whole number of milliseconds"),
        ("1\n2.5\n", "line 2 = '2.5': accepted: a whole number of milliseconds"),
        ("-1\n", "line 1 = '-1': accepted: a whole number of milliseconds"),
        ("12345678901\n", "line 1 = '12345678901': accepted: a whole number of milliseconds"),
        ("1\n5\n4\n", "line 3 = '4': accepted: a time no earlier than the one before"),
    ],
)
def test_what_is_no_trace_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path / "bad.trace", text)
    with command_error(Exit.USAGE, begins=f"{path}: {message}"):
        link_of(trace=str(path))


def test_a_trace_that_cannot_be_read_is_no_input() -> None:
    with command_error(Exit.NO_INPUT, "/nowhere.trace: cannot be read"):
        link_of(trace="/nowhere.trace")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"rate": "1mbit", "trace": "traces/lte.trace"}, "accepted: either a rate or a trace"),
        ({"rate": "1mbit", "up": {"rate": "1mbit", "trace": "traces/lte.trace"}}, "accepted: either a rate or a trace"),
        ({"delay": "1ms"}, "accepted: a link with a rate, such as '5mbit', or a trace, for each direction"),
        ({"down": {"trace": "traces/lte.trace"}}, "or a trace, for each direction"),
        ({"trace": 5}, "links.lte.trace = 5: accepted: the path, without a comma"),
        ({"trace": "a,b.trace"}, "accepted: the path, without a comma"),
    ],
)
def test_a_direction_has_either_a_rate_or_a_trace(table: dict[str, object], message: str) -> None:
    with command_error(Exit.USAGE, message):
        link_of(**table)


def test_a_path_in_a_profile_is_relative_to_the_profile_s_folder(trace: Path) -> None:
    profile = written(trace.with_name("own.toml"), '[links.lte]\nrate = "1mbit"\ndown = { trace = "half.trace" }\n')
    (link,) = Topology.of(read_profile(file=profile)).links
    assert link.down.trace == Trace.read(trace)


def test_a_path_as_argument_is_relative_to_the_working_directory(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trace.parent)
    dsl, lte = Topology.of(read_profile("dsl.trace=half.trace", "lte.down.rate=7mbit", file=TRACED)).links
    assert dsl.down.trace == Trace.read(trace)
    assert (dsl.up.trace, dsl.up.rate.amount) == (None, 10_000_000)
    assert (lte.traced, lte.down.rate.amount) == (False, 7_000_000)


def test_no_path_on_the_command_line_is_refused() -> None:
    with command_error(Exit.USAGE, "accepted: the path, without a comma"):
        read_profile("dsl.trace=", file=TRACED)


def test_a_described_profile_is_the_same_when_it_is_read_again() -> None:
    profile = load(TRACED, Profile)
    assert Profile.model_validate(profile.model_dump(mode="json"), strict=False) == profile


def test_the_trace_that_comes_with_the_project_is_what_its_generator_makes(tmp_path: Path) -> None:
    shipped = PROFILES / "traces" / "lte.trace"
    generator = written(tmp_path / "make_lte.py", shipped.with_name("make_lte.py").read_text())
    subprocess.run([sys.executable, str(generator)], check=True)
    assert (tmp_path / "lte.trace").read_bytes() == shipped.read_bytes()
    assert Trace.read(shipped).mean.amount == 12_000_000


def test_a_link_with_a_trace_needs_the_emulator_also_where_there_is_netem(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.testbed.links.EMULATOR", tmp_path / "link-emulator")
    monkeypatch.setattr("experiments.testbed.links.kernel_has_netem", lambda: True)
    node = Node("trib-none", tmp_path)
    with pytest.raises(
        CommandError, match=r"link lte has a trace, and .*is not built: run .*/programs .* link-emulator"
    ) as caught:
        connect(link_of(trace=str(trace)), node, node, node, seed=0)
    assert caught.value.code == Exit.UNAVAILABLE
