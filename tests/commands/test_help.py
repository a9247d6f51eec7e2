"""Every command of every program says how it is used: each in this process, and each script as a person runs it."""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Protocol

import pytest

from tributary.paths import CACHE, ROOT
from tributary.settings.cli import Arguments
from tributary.settings.errors import Exit

SCRIPTS = sorted(path for path in (ROOT / "scripts").iterdir() if path.is_file())
MODULES = [module for path in SCRIPTS for module in re.findall(r' -m ([a-z.]+) "\$@"', path.read_text())]
"""The Python programs that scripts run."""
OTHERS = (ROOT / "converter/fuzz/run", ROOT / ".ci/run")
ANYCAST = ROOT / "ansible/roles/anycast/files/tributary_anycast.py"
RUST = ("tributary-converter", "tributary-load")

Words = tuple[str, ...]


class Program(Protocol):
    """Where a Python program has its command line."""

    main: Callable[[Sequence[str]], int]
    parser: Callable[[], argparse.ArgumentParser]


def program(module: str) -> Program:
    home = f"{module}.cli" if find_spec(f"{module}.cli") else f"{module}.__main__"
    found: Program = import_module(home)
    return found


@cache
def commands(module: str) -> tuple[tuple[Words, argparse.ArgumentParser], ...]:
    """The parsers of a program and of all its sub-commands, each with the words that lead to it."""
    return tuple(walk(program(module).parser()))


def walk(top: argparse.ArgumentParser, words: Words = ()) -> Iterator[tuple[Words, argparse.ArgumentParser]]:
    yield words, top
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                yield from walk(each, (*words, name))


@pytest.mark.parametrize("module", MODULES)
def test_every_command_answers_help(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words, parser in commands(module):
        with pytest.raises(SystemExit) as ended:
            program(module).main([*words, "--help"])
        printed = capsys.readouterr()
        assert (ended.value.code, printed.err) == (0, ""), words
        assert parser.description and " ".join(words) in printed.out and "--help" in printed.out, words


@pytest.mark.parametrize("module", sorted({*MODULES} - {"converter.conformance"}))
def test_the_options_of_every_command_are_its_arguments(module: str) -> None:
    """All of them and no others, so that none is read by nobody."""
    shared = set[str]()
    for words, parser in commands(module):
        arguments = {action.dest for action in parser._actions} - {"help", argparse.SUPPRESS}
        handler = parser.get_default("act")
        taken = signature(handler).parameters.keys() if handler else set()
        if not words and isinstance(parser, Arguments):
            shared = parser.shared
            arguments -= shared
        assert arguments == taken - shared, words
        assert handler or len(commands(module)) > 1


CHANGING = {"up", "down", "sync", "enrol", "rotate", "revoke", "forward", "install", "mark-bad", "back"}
REPORTING = {"list", "status", "usage", "show"}
NO_MACHINE = {("overlay", "up"), ("overlay", "down"), ("overlay", "enrol")}
"""What changes its own namespaces, or a folder that it is given, and no machine."""


@pytest.mark.parametrize("module", MODULES)
def test_commands_that_change_a_machine_have_a_dry_run_and_those_that_report_have_json(module: str) -> None:
    for words, parser in commands(module):
        last, options = words[-1] if words else "", parser.format_help()
        if last in CHANGING and (module, last) not in NO_MACHINE:
            assert "--dry-run" in options, words
        if last in REPORTING:
            assert "--json" in options, words


def test_every_script_that_the_documents_name_is_asked() -> None:
    pages = [page.read_text() for page in (ROOT / "docs").glob("*.md")]
    named = {name for page in pages for name in re.findall(r"\bscripts/([a-z-]+)(?![a-z./-])", page)}
    assert len(named) > 15 and named <= {path.name for path in SCRIPTS}


def test_every_script_and_program_answers_help() -> None:
    built = [CACHE / "bin" / name for name in RUST]
    if not all(path.exists() for path in built):
        pytest.skip(f"missing: {', '.join(RUST)} in {CACHE}/bin: scripts/setup builds them")
    asked: list[Sequence[str | Path]] = [(path, "--help") for path in (*SCRIPTS, *OTHERS)]
    asked += [(path, *words, "--help") for path in built for words in ((), *subcommands(path))]
    asked += [(sys.executable, ANYCAST, *words, "--help") for words in ((), ("run",), ("drain",), ("announce",))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        assert list(filter(None, pool.map(wrong, asked))) == []


def test_output_that_nobody_reads_is_no_traceback() -> None:
    """As behind ``| head -1``; the help of a command is written at its end, when Python empties its buffer."""

    def code_and_errors(module: str) -> tuple[int, str]:
        reader, writer = os.pipe()
        os.close(reader)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        command = (sys.executable, "-m", module, "--help")
        ended = subprocess.run(
            command,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
            env=environment,
            cwd=ROOT,
        )
        os.close(writer)
        return ended.returncode, ended.stderr

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ended = dict(zip(MODULES, pool.map(code_and_errors, MODULES), strict=True))
    assert ended == dict.fromkeys(MODULES, (Exit.SYSTEM, ""))


def subcommands(path: Path) -> Iterator[Words]:
    """Those that a program of clap's lists, but for `help`, which is help itself."""
    printed = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", printed, re.MULTILINE)
    assert listed, path
    return ((name,) for name in re.findall(r"^  ([a-z-]+)  ", listed[1], re.MULTILINE) if name != "help")


def wrong(command: Sequence[str | Path]) -> str:
    """What was wrong with a command's help."""
    environment = {**os.environ, "TRIBUTARY_CACHE": str(CACHE)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    told = done.returncode == 0 and not done.stderr and len(done.stdout) > 80
    return "" if told else f"{command}: {done}"
