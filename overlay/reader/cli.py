"""The program of tributary-overlay.service; ``overlay serve`` is the same in a checkout."""

from collections.abc import Sequence
from pathlib import Path

from overlay.reader import etcd, service
from tributary.daemons.logs import Format, to_stderr
from tributary.daemons.metrics_server import listen_address
from tributary.settings.cli import Arguments, need_root

DESCRIPTION = """\
Reads the overlay every three seconds until stopped, and answers 'tributary status' and the console of this machine.
Needs root, for its socket in /run/tributary.
"""
_PROGRAM = Path("/usr/bin/tributary-overlay")


def main(words: Sequence[str]) -> int:
    """Read until stopped."""
    made = Arguments(prog="overlay-reader", description=DESCRIPTION)
    etcd.add_arguments(made)
    add_metrics(made)
    made.set_handler(_read)
    return made.dispatch(words)


def add_metrics(command: Arguments) -> None:
    """Add the option that has Prometheus served."""
    command.add_argument("--metrics", metavar="ADDRESS:PORT", help="serve Prometheus metrics there, at /metrics")


def _read(endpoints: str, identity: Path | None, insecure_transport: bool, metrics: str | None) -> None:
    read(_PROGRAM, etcd.arguments(endpoints, identity, insecure_transport), metrics)


def read(program: Path, reached: Sequence[str], metrics: str | None) -> None:
    """Read by the control plane's ``program``, which gets the arguments for etcd; ``metrics`` is ``ADDRESS:PORT``."""
    address = listen_address(metrics) if metrics else None
    need_root("to read the overlay")
    log = to_stderr(Format.TEXT)
    try:
        service.serve([str(program), "status", *reached], address, log)
    finally:
        log.close()
