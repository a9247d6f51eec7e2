"""Files as a package wants them: manuals, documents, commands, modules. Pure."""

import fnmatch
import gzip
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from debs.manual import manual
from debs.package import PYTHON, File, Inputs
from debs.release import Release
from tributary.settings.errors import CommandError, Exit


def zipped(content: bytes) -> bytes:
    """As gzip -9n does: no name and no time, so that the same content gives the same bytes."""
    return gzip.compress(content, 9, mtime=0)


def files(inputs: Inputs, package: str, *patterns: str) -> Iterator[File]:
    """The files of the checkout that fit one of ``patterns`` (fnmatch(3)), each where its kind belongs."""
    for pattern in patterns:
        found = fnmatch.filter(inputs.checkout, pattern)
        if not found:
            raise CommandError(Exit.SYSTEM, f"{package}: no file {pattern} in the checkout")
        for path in found:
            yield _placed(package, PurePosixPath(path), inputs.checkout[path], inputs.release)


def _placed(package: str, path: PurePosixPath, content: bytes, release: Release) -> File:
    name, documents = path.name, f"usr/share/doc/{package}"
    match str(path.parent), path.suffix:
        case "debs/man", ".md":
            page = manual(content.decode(), f"{release.date:%B} {release.date.day}, {release.date.year}")
            return File(f"usr/share/man/man{path.stem[-1]}/{path.stem}.gz", zipped(page.encode()))
        case "debs/files", ".logrotate":  # logrotate(8)
            return File(f"etc/logrotate.d/{path.stem}", content)
        case "debs/files", ".lintian-overrides":  # what lintian(1) need not say, each with its reason
            return File(f"usr/share/lintian/overrides/{path.stem}", content)
        case "debs/files", _:
            return File(f"etc/tributary/{name}", content)
        case _, ".service" | ".socket" | ".timer":
            return File(f"usr/lib/systemd/system/{name}", content)
        case folder, ".conf" if folder.endswith(".d"):  # changes the unit that the folder is called after
            return File(f"usr/lib/systemd/system/{path.parent.name}/{name}", content)
        case _, ".conf":
            return File(f"usr/lib/sysctl.d/{name}", content)
        case _, ".md":
            return File(f"{documents}/{name}.gz", zipped(content))
    return File(f"{documents}/examples/{name}", content)


def modules(checkout: Mapping[str, bytes], part: str) -> tuple[File, ...]:
    """The Python package ``part`` with the templates that it reads."""
    return tuple(
        File(f"{PYTHON}/{path}", content)
        for path, content in checkout.items()
        if path.startswith(f"{part}/") and path.endswith((".py", ".j2"))
    )


def command(name: str, module: str, folder: str = "usr/bin") -> File:
    """The command ``name`` in ``folder``, which runs the function ``main`` of ``module``.

    Python looks at its own library and at ours, and at nothing else: not at the environment, the current folder, or
    modules of Debian's or of a user's (-I, -S). It writes no compiled modules (-B): dpkg would not know of them.
    """
    program = f"""\
#!/usr/bin/python3 -ISB
import sys

sys.path.insert(0, "/{PYTHON}")

from tributary.settings.cli import run
from {module} import main

run(main, "{name}")
"""
    return File(f"{folder}/{name}", program.encode(), 0o755)
