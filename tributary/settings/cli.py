"""The command-line frame of every program: arguments in, an exit code out, clean-up in any case."""

import argparse
import errno
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from inspect import Parameter, Signature, signature
from json import dumps
from types import FrameType
from typing import Any, NoReturn, TypeVar

from tributary.settings.errors import CommandError, Exit

T = TypeVar("T")

_UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The reader of our output is gone; or its file cannot grow, by the disk, a quota or a limit."""


class Contradiction(Exception):
    """Arguments that do not go together; a command raises it before it does anything."""


class Arguments(argparse.ArgumentParser):
    """argparse with sysexits codes, and help texts that are not reflowed.

    A function gets a command's arguments by their names, and raises Contradiction where they do not go together::

        command.set_handler(_plan)              # def _plan(file: Path, json: bool) -> int | None
        return parser.dispatch(words)
    """

    def __init__(self, *args: object, **options: object) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        options.setdefault("allow_abbrev", False)
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.shared: set[str] = set()
        """Arguments of the program that some of its commands take."""

    def add_shared(self, name: str, **how: Any) -> None:
        """Add ``--name``, before the command; a command whose function does not take it refuses it."""
        self.add_argument(f"--{name}", **how)
        self.shared.add(name)

    def set_handler(self, act: Callable[..., int | None]) -> None:
        """Let ``dispatch`` call ``act`` with this command's arguments by their names."""
        self.set_defaults(act=act)

    def gather(self, name: str, make: Callable[..., object]) -> None:
        """Let the command's function get as ``name`` what ``make`` returns for the arguments that it takes."""
        act, own = self.get_default("act"), signature(make).parameters

        def run(**given: Any) -> int | None:
            made = make(**{each: given.pop(each) for each in own})
            code: int | None = act(**{name: made}, **given)
            return code

        others = [each for each in signature(act).parameters.values() if each.name != name]
        every = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*own.values(), *others)]
        run.__signature__ = Signature(every)  # type: ignore[attr-defined]
        self.set_handler(run)

    def dispatch(self, words: Sequence[str]) -> int:
        """Run the command in ``words``; returns the exit code."""
        given = vars(self.parse_args(words))
        act = given.pop("act")
        for name in self.shared - signature(act).parameters.keys():
            if given.pop(name) is not None:
                self.error(f"--{name}: not accepted with this command")
        try:
            return act(**given) or 0
        except Contradiction as error:
            self.error(str(error))

    def _check_value(self, action: argparse.Action, value: object) -> None:
        # For a typo suggest the closest word, instead of a list of all.
        names = [str(choice) for choice in action.choices or ()]
        near = get_close_matches(str(value), names, 1) if str(value) not in names else []
        if near:
            raise argparse.ArgumentError(action, f"invalid choice: {value!r} (did you mean {near[0]}?)")
        super()._check_value(action, value)

    def print_help(self, file: Any = None) -> None:
        # argparse drops an error of writing, and with it what no buffer holds.
        print(self.format_help(), end="", file=file)

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


class Subcommands:
    """The subcommands of a program: each has its own arguments, and the same epilog unless it is given another one."""

    def __init__(self, program: Arguments, epilog: str, metavar: str = "COMMAND") -> None:
        self._added = program.add_subparsers(required=True, metavar=metavar)
        self._epilog = epilog

    def add(
        self, name: str, act: Callable[..., int | None], about: str, text: str, epilog: str | None = None
    ) -> Arguments:
        """Add a command, with a line ``about`` it for the program's help and a ``text`` for its own."""
        added: Arguments = self._added.add_parser(name, help=about, description=text, epilog=epilog or self._epilog)
        added.set_handler(act)
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


def parsed_by(parse: Callable[[str], T], accepted: str) -> Callable[[str], T]:
    """The ``type`` of an argument that ``parse`` reads; if that raises ValueError, the error says what is accepted."""

    def read(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: accepted: {accepted}") from error

    return read


def whole_number(least: int, most: int, of: str = "") -> Callable[[str], int]:
    """The ``type`` of an argument that is a whole number (``of`` days) of these bounds; its error says so."""
    number = f"a whole number of {of}" if of else "a whole number"

    def read(text: str) -> int:
        # No digits of other scripts, which int() takes; and none of a number too long for it.
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text}: accepted: {number} from {least} to {most}")
        return int(text)

    return read


def some_of(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """The ``type`` of an argument that is some of these names, with commas between them; its error says so."""

    def read(text: str) -> tuple[str, ...]:
        names = tuple(filter(None, text.split(",")))
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: accepted: {', '.join(known)}")
        return names

    return read


def show(document: object, lines: Iterable[str], *, as_json: bool, indent: int | None = 2) -> None:
    """Print ``document`` as JSON, for a program, or ``lines``, for a person."""
    for line in [dumps(document, indent=indent)] if as_json else lines:
        print(line)


def need_root(what: str) -> None:
    """Raise CommandError (exit 77) unless root runs this."""
    if os.geteuid() != 0:
        raise CommandError(Exit.NO_PERMISSION, f"{what} needs root: use sudo")


def program(parser: Callable[[], Arguments]) -> Callable[[Sequence[str]], int]:
    """The ``main`` of a program: runs the command in the words that it gets; raises CommandError as that does."""
    return lambda words: parser().dispatch(words)


def run(main: Callable[[Sequence[str]], int], name: str) -> NoReturn:
    """Call ``main`` with the arguments of the command line and exit with what it returns.

    SIGTERM and SIGHUP unwind the stack as Ctrl-C does, so that every context manager cleans up; but for SIGHUP under
    nohup(1), which ignores it.
    """
    signal.signal(signal.SIGTERM, _unwind)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _unwind)
    try:
        try:
            code = main(sys.argv[1:])
        finally:
            # Not at the interpreter's end, where a closed pipe would be a traceback. There is none if it was closed.
            if sys.stdout is not None:
                sys.stdout.flush()
    except (CommandError, KeyboardInterrupt) as error:
        code, words = outcome(error)
        print(f"{name}: {words}", file=sys.stderr)
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        # What is left of the output goes nowhere.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = Exit.SYSTEM
        if not isinstance(error, BrokenPipeError):
            print(f"{name}: cannot write: {error.strerror}", file=sys.stderr)
    sys.exit(code)


@contextmanager
def postponed_signals(*more: signal.Signals) -> Iterator[Callable[[], bool]]:
    """SIGTERM, SIGHUP and ``more`` count at the end of the block alone. Gives whether one has come.

    For what takes any exception for its own, as a web server does with one in a request, and for what has to be whole.
    """
    came: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGHUP, *more)
    before = {each: signal.signal(each, lambda number, _: came.append(number)) for each in numbers}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def outcome(error: BaseException) -> tuple[int, str]:
    """The exit code that ``run`` makes of ``error``, and the message."""
    if isinstance(error, SystemExit):
        code = int(error.code or 0)  # of _unwind
        return code, f"ended by signal {code - 128}"
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED, "interrupted"
    return error.code if isinstance(error, CommandError) else Exit.SYSTEM, str(error)


def _unwind(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
