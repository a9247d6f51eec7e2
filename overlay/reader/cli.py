"""The program of tributary-overlay.service; ``overlay serve`` is the same in a checkout."""

from collections.abc import Sequence
from pathlib import Path

from overlay.reader import etcd
from tributary.daemons.logs import Format, to_stderr
from tributary.settings import metrics_argument
from tributary.settings.cli import Arguments, need_root
from tributary.settings.hosts import Target

DESCRIPTION = """\
Reads the overlay every three seconds until stopped, and answers 'tributary status' and the console of this machine.
Needs root, for its socket in /run/tributary.
"""
_PROGRAM = Path("/usr/bin/tributary-overlay")


def main(words: Sequence[str]) -> int:
    """Read until stopped."""
    made = Arguments(prog="overlay-reader", description=DESCRIPTION)
    made.set_handler(_read)
    etcd.add_arguments(made)
    metrics_argument.add(made)
    return made.dispatch(words)


def _read(reached: Sequence[str], metrics: Target | None) -> None:
    read(_PROGRAM, reached, metrics)


def read(program: Path, reached: Sequence[str], metrics: Target | None) -> None:
    """Read by the control plane's ``program``, which gets the arguments for etcd."""
    need_root("to read the overlay")
    # Not at the top: help needs no reader.
    from overlay.reader import service

    log = to_stderr(Format.TEXT)
    try:
        service.serve([str(program), "status", *reached], metrics, log)
    finally:
        log.close()
