import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.refusals import usage_error
from tributary.settings.cli import Arguments, Contradiction, Subcommands, whole_number
from tributary.settings.errors import Exit


def parser(done: list[object]) -> Arguments:
    made = Arguments(prog="book")
    commands = made.add_subparsers(required=True, metavar="COMMAND")

    def written(names: Sequence[str], fast: bool, slow: bool) -> int:
        if fast and slow:
            raise Contradiction("--fast and --slow: accepted: one of them")
        done.append((names, fast))
        return 3

    write = commands.add_parser("write")
    write.set_handler(written)
    write.add_argument("names", nargs="*")
    for option in ("--fast", "--slow"):
        write.add_argument(option, action="store_true")
    commands.add_parser("read").set_handler(lambda: done.append("read"))
    return made


def test_a_command_gets_its_own_options_and_gives_the_exit_code() -> None:
    done: list[object] = []
    assert parser(done).dispatch(["write", "--fast", "a", "b"]) == 3
    assert parser(done).dispatch(["read"]) == 0
    assert done == [(["a", "b"], True), "read"]


def test_arguments_that_contradict_each_other_are_refused_before_all_else(capsys: pytest.CaptureFixture[str]) -> None:
    done: list[object] = []
    told = usage_error(parser(done).dispatch, ["write", "--fast", "--slow"], capsys)
    assert told == "book: --fast and --slow: accepted: one of them (see book --help)\n"
    assert done == []


def test_an_argument_that_no_function_takes_is_a_fault_of_ours() -> None:
    made = Arguments(prog="book")
    made.set_handler(lambda: None)
    made.add_argument("--unknown")
    with pytest.raises(TypeError, match="unknown"):
        made.dispatch([])


def test_a_shared_argument_is_for_the_commands_that_take_it(capsys: pytest.CaptureFixture[str]) -> None:
    made = Arguments(prog="library")
    made.add_shared("at")
    commands, taken = Subcommands(made, ""), list[object]()
    commands.add("read", lambda: None, "read", "Reads.")
    commands.add("visit", lambda at: taken.append(at), "visit", "Visits.")
    assert made.dispatch(["--at", "home", "visit"]) == made.dispatch(["visit"]) == 0
    assert taken == ["home", None]
    assert "--at: not accepted with this command" in usage_error(made.dispatch, ["--at", "home", "read"], capsys)


def test_a_typo_is_refused_with_the_word_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    made = Arguments(prog="thing")
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    for name in ("status", "plan", "run"):
        commands.add_parser(name).add_argument("--link", choices=["wired", "wireless"])
    cases = {"statsu": "did you mean status?", "run --link wierd": "did you mean wired?", "x": "choose from"}
    for words, told in cases.items():
        assert told in usage_error(made.parse_args, words.split(), capsys)


@pytest.mark.parametrize("text", ["0", "11", "-1", "1.5", "", "٣", "9" * 5000])
def test_a_whole_number_is_refused_outside_of_its_bounds(text: str) -> None:
    assert whole_number(1, 10)("10") == 10
    with pytest.raises(ArgumentTypeError, match="accepted: a whole number from 1 to 10"):
        whole_number(1, 10)(text)


@pytest.mark.parametrize("code", ["print('x')", "print(9999 * 'x'); print('x')", "print('x', flush=True)"])
def test_output_onto_a_full_disk_is_an_error_in_one_line(code: str) -> None:
    program = f"from tributary.settings.cli import run\nrun(lambda _: {code.replace(';', ' or')}, 'book')"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (Exit.SYSTEM, "book: cannot write: No space left on device\n")


def started(act: str, before: str = ":") -> tuple[int, str]:
    """How a program ends that does this, where a shell has done that before, and what it says."""
    program = f"import os; from tributary.settings.cli import run; run(lambda _: {act}, 'book')"
    command = ["sh", "-c", f'{before}; exec "$0" -c "$1"', sys.executable, program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_terminal_that_is_closed_ends_a_program_unless_nohup_keeps_it_and_no_output_none() -> None:
    act = "os.kill(os.getpid(), 1) or 0"
    assert started(act) == (129, "")
    assert started(act, "trap '' HUP") == (0, "")
    assert started("print('x') or 0", "exec >&-") == (0, "")
