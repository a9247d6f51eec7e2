"""The command-line frame of every program: arguments in, an exit code out, clean-up in any case."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from inspect import signature
from types import FrameType
from typing import Any, NoReturn, TypeVar

from tributary.settings.errors import CommandError, Exit

_Options = TypeVar("_Options")


class Contradiction(Exception):
    """Arguments that do not go together; a command raises it before it does anything."""


class Arguments(argparse.ArgumentParser):
    """argparse with sysexits codes, and help texts that are not reflowed.

    A function gets a command's arguments by their names; or, where they travel on together, as a frozen dataclass with
    a field for each::

        command.set_function(_plan)             # def _plan(file: Path, json: bool) -> int | None
        command.set_handler(Plan, _plan)        # def _plan(options: Plan) -> int | None
        return parser.dispatch(words)

    Arguments that do not go together are a Contradiction, or a ValueError of the dataclass.
    """

    def __init__(self, *args: object, **options: object) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        options.setdefault("allow_abbrev", False)
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.shared: set[str] = set()
        """Arguments of the program that some of its commands take."""

    def add_shared(self, name: str, **how: Any) -> None:
        """Add ``--name``, before the command; a command that has no field for it refuses it."""
        self.add_argument(f"--{name}", **how)
        self.shared.add(name)

    def set_handler(self, options: type[_Options], act: Callable[[_Options], int | None]) -> None:
        """Let ``dispatch`` call ``act`` with this command's arguments as ``options``."""
        self.set_defaults(options=options, act=act)

    def set_function(self, act: Callable[..., int | None]) -> None:
        """Let ``dispatch`` call ``act`` with this command's arguments by their names."""
        self.set_defaults(options=None, act=act)

    def dispatch(self, words: Sequence[str]) -> int:
        """Run the command in ``words``; returns the exit code."""
        given = vars(self.parse_args(words))
        act, options = given.pop("act"), given.pop("options")
        for name in self.shared - signature(options or act).parameters.keys():
            if given.pop(name) is not None:
                self.error(f"--{name}: not accepted with this command")
        try:
            call = partial(act, options(**given)) if options else partial(act, **given)
        except ValueError as error:
            self.error(str(error))
        try:
            return call() or 0
        except Contradiction as error:
            self.error(str(error))

    def _check_value(self, action: argparse.Action, value: object) -> None:
        # For a typo suggest the closest word, instead of a list of all.
        names = [str(choice) for choice in action.choices or ()]
        near = get_close_matches(str(value), names, 1) if str(value) not in names else []
        if near:
            raise argparse.ArgumentError(action, f"invalid choice: {value!r} (did you mean {near[0]}?)")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


class Subcommands:
    """The subcommands of a program: each has its own arguments, and the same epilog unless it is given another one."""

    def __init__(self, program: Arguments, epilog: str, metavar: str = "COMMAND") -> None:
        self._added = program.add_subparsers(required=True, metavar=metavar)
        self._epilog = epilog

    def add(
        self, name: str, options: type[_Options], act: Callable[[_Options], int | None], about: str, text: str
    ) -> Arguments:
        """Add a command, with a line ``about`` it for the program's help and a ``text`` for its own."""
        added = self.add_function(name, act, about, text)
        added.set_handler(options, act)
        return added

    def add_function(
        self, name: str, act: Callable[..., int | None], about: str, text: str, epilog: str | None = None
    ) -> Arguments:
        """The same for a function that takes the arguments by their names."""
        added: Arguments = self._added.add_parser(name, help=about, description=text, epilog=epilog or self._epilog)
        added.set_function(act)
        return added

    def group(self, name: str, about: str) -> Arguments:
        """Add a command that has subcommands of its own."""
        added: Arguments = self._added.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        return added

    def adopt(self, name: str, program: Arguments, about: str) -> None:
        """Add the whole of another program as a command."""
        self._added.add_parser(
            name, parents=[program], add_help=False, help=about, description=program.description, epilog=program.epilog
        )


def whole_number(least: int, most: int, of: str = "") -> Callable[[str], int]:
    """The ``type`` of an argument that is a whole number (``of`` days) of these bounds; its error says so."""
    number = f"a whole number of {of}" if of else "a whole number"

    def read(text: str) -> int:
        # No digits of other scripts, which int() takes; and none of a number too long for it.
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text}: accepted: {number} from {least} to {most}")
        return int(text)

    return read


def need_root(what: str) -> None:
    """Raise CommandError (exit 77) unless root runs this."""
    if os.geteuid() != 0:
        raise CommandError(Exit.NO_PERMISSION, f"{what} needs root: use sudo")


def run(main: Callable[[Sequence[str]], int], name: str) -> NoReturn:
    """Call ``main`` with the arguments of the command line and exit with what it returns.

    SIGTERM and SIGHUP unwind the stack as Ctrl-C does, so that every context manager cleans up.
    """
    signal.signal(signal.SIGTERM, _unwind)
    signal.signal(signal.SIGHUP, _unwind)
    try:
        try:
            code = main(sys.argv[1:])
        finally:
            # Not at the interpreter's end, where a closed pipe would be a traceback.
            sys.stdout.flush()
    except CommandError as failure:
        print(f"{name}: {failure}", file=sys.stderr)
        code = failure.code
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        code = Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output is gone.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = Exit.SYSTEM
    sys.exit(code)


def _unwind(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
