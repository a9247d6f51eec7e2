"""From words to the options of a command."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tributary.settings.cli import Arguments, Subcommands
from tributary.settings.errors import Exit


@dataclass(frozen=True)
class Write:
    """A command with arguments that can contradict each other."""

    names: Sequence[str]
    fast: bool
    slow: bool

    def __post_init__(self) -> None:
        if self.fast and self.slow:
            raise ValueError("--fast and --slow: accepted: one of them")


@dataclass(frozen=True)
class Read:
    """A command without any."""


@dataclass(frozen=True)
class Visit:
    """A command that takes what the program does."""

    at: str | None


def parser(done: list[object]) -> Arguments:
    made = Arguments(prog="book")
    commands = made.add_subparsers(required=True, metavar="COMMAND")

    def written(options: Write) -> int:
        done.append(options)
        return 3

    write = commands.add_parser("write")
    write.set_handler(Write, written)
    write.add_argument("names", nargs="*")
    for option in ("--fast", "--slow"):
        write.add_argument(option, action="store_true")
    commands.add_parser("read").set_handler(Read, done.append)
    return made


def test_a_command_gets_its_own_options_and_gives_the_exit_code() -> None:
    done: list[object] = []
    assert parser(done).dispatch(["write", "--fast", "a", "b"]) == 3
    assert parser(done).dispatch(["read"]) == 0
    assert done == [Write(["a", "b"], fast=True, slow=False), Read()]


def test_arguments_that_contradict_each_other_are_refused_before_anything_is_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done: list[object] = []
    with pytest.raises(SystemExit) as ended:
        parser(done).dispatch(["write", "--fast", "--slow"])
    assert (ended.value.code, done) == (64, [])
    assert capsys.readouterr().err == "book: --fast and --slow: accepted: one of them (see book --help)\n"


def test_an_argument_that_no_field_takes_is_a_fault_of_ours() -> None:
    made = Arguments(prog="book")
    made.set_handler(Read, lambda _: None)
    made.add_argument("--unknown")
    with pytest.raises(TypeError, match="unknown"):
        made.dispatch([])


def test_a_shared_argument_is_for_the_commands_that_take_it(capsys: pytest.CaptureFixture[str]) -> None:
    made = Arguments(prog="library")
    made.add_shared("at")
    commands, taken = Subcommands(made, ""), list[object]()
    commands.add("read", Read, taken.append, "read", "Reads.")
    commands.add("visit", Visit, taken.append, "visit", "Visits.")
    assert made.dispatch(["--at", "home", "visit"]) == made.dispatch(["visit"]) == 0
    assert taken == [Visit("home"), Visit(None)]
    with pytest.raises(SystemExit) as ended:
        made.dispatch(["--at", "home", "read"])
    assert ended.value.code == Exit.USAGE
    assert "--at: not accepted with this command" in capsys.readouterr().err


def test_a_typo_is_refused_with_the_word_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    made = Arguments(prog="thing")
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    for name in ("status", "plan", "run"):
        commands.add_parser(name).add_argument("--link", choices=["wired", "wireless"])
    for words, meant in ((["statsu"], "status"), (["run", "--link", "wierd"], "wired")):
        with pytest.raises(SystemExit) as ended:
            made.parse_args(words)
        assert ended.value.code == 64
        assert f"did you mean {meant}?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        made.parse_args(["x"])
    assert "choose from" in capsys.readouterr().err
