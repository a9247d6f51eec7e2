"""The settings files of this box: what they would change, and whether they are accepted."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gateway.cli
import router.cli
import router.settings
import squid.settings
import throttler.cli
from gateway.settings import GatewaySettings
from throttler.policy import model
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import load


@dataclass(frozen=True)
class Kind:
    """One program's settings: its file's name, and the commands that read it."""

    name: str
    check: Callable[[Path], object]
    plan: Callable[[Path], object]


KINDS = (
    Kind("throttler.toml", model.read, lambda file: throttler.cli.main(["plan", str(file)])),
    Kind("router.toml", router.settings.read, lambda file: router.cli.main(["plan", str(file)])),
    Kind(
        "gateway.toml",
        lambda file: load(file, GatewaySettings),
        lambda file: gateway.cli.main(["plan", "--settings", str(file)]),
    ),
    Kind("squid.toml", lambda file: load(file, squid.settings.SquidSettings), lambda _: None),
)


def check(folder: Path) -> int:
    """Read all that is there, say of each whether it is valid, and return the exit code of the first that is not."""
    return _each(folder, lambda kind, file: (kind.check(file), print(f"{file}: valid")))


def plan(folder: Path) -> int:
    """Print what each would change now."""

    def show(kind: Kind, file: Path) -> None:
        print(f"# {file}", flush=True)
        kind.plan(file)

    return _each(folder, show)


def _each(folder: Path, act: Callable[[Kind, Path], object]) -> int:
    found = [kind for kind in KINDS if (folder / kind.name).exists()]
    if not found:
        raise CommandError(Exit.NO_INPUT, f"{folder}: none of {', '.join(kind.name for kind in KINDS)} is there")
    code = 0
    for kind in found:
        try:
            act(kind, folder / kind.name)
        except CommandError as failure:
            print(f"tributary: {failure}", file=sys.stderr)
            code = code or failure.code
    return code
