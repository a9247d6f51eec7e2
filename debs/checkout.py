"""The checkout: which commit it is, and the files that git knows. Stray files never get into a package."""

from collections.abc import Mapping

from debs.release import Commit
from tributary.kernel import process
from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit

INPUTS = (
    *("LICENSE", "Cargo.lock", "Cargo.toml", "pyproject.toml", "requirements.lock"),
    *("experiments/link-emulator", "overlay"),
    *("command", "console", "converter", "router", "gateway", "debs", "docs", "doctor", "guard", "handoff"),
    *("image/__init__.py", "image/firstboot", "image/upgrade", "kernel-config", "squid", "tc-policies", "throttler"),
    "tributary",
)
"""All that packages are made from."""


def commit() -> Commit:
    """What is checked out; raises CommandError (69) outside of a git checkout."""
    number, time = _git("log", "-1", "--format=%H %ct").split()
    return Commit(
        number,
        int(time),
        tags=tuple(_git("tag", "--points-at", "HEAD").split()),
        modified=bool(_git("status", "--porcelain", "--untracked-files=no", "--", *INPUTS).strip()),
    )


def tracked(*more: str) -> Mapping[str, bytes]:
    """The INPUTS, and ``more`` paths, that git tracks, as they are now, by their paths; in order."""
    listed = _git("ls-files", "-z", "--", *INPUTS, *more)
    names = sorted(name for name in listed.split("\0") if name)
    return {name: (ROOT / name).read_bytes() for name in names if (ROOT / name).is_file()}


def _git(*arguments: str) -> str:
    # safe.directory: with sudo, the checkout belongs to somebody else.
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments]
    done = process.run(command)
    if done.returncode != 0:
        raise CommandError(Exit.UNAVAILABLE, f"{ROOT} must be a git checkout, for the version: {done.stderr.strip()}")
    return done.stdout
