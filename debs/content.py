"""Files as a package wants them: manuals, documents, commands, modules. Pure."""

import gzip
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from debs.package import PYTHON, File
from debs.release import Release


def zipped(content: bytes) -> bytes:
    """As gzip -9n does: no name and no time, so that the same content gives the same bytes."""
    return gzip.compress(content, 9, mtime=0)


def manual(checkout: Mapping[str, bytes], page: str, release: Release) -> File:
    """The manual ``page`` of debs/man, such as 'tributary-squid.8', with the commit's date as its own."""
    source = checkout[f"debs/man/{page}"].decode()
    date = f"{release.date:%B} {release.date.day}, {release.date.year}"  # as mdoc(7) wants it
    return File(f"usr/share/man/man{page[-1]}/{page}.gz", zipped(source.replace("@DATE@", date).encode()))


def documents(package: str, checkout: Mapping[str, bytes], paths: Iterable[str]) -> tuple[File, ...]:
    """Pages and examples of the checkout, in the package's folder of documents."""
    return tuple(
        File(
            f"usr/share/doc/{package}/{_place(path)}",
            zipped(checkout[path]) if path.endswith(".md") else checkout[path],
        )
        for path in paths
    )


def _place(path: str) -> str:
    name = PurePosixPath(path).name
    return f"{name}.gz" if name.endswith(".md") else f"examples/{name}"


def beneath(checkout: Mapping[str, bytes], folder: str, suffix: str) -> list[str]:
    """The paths of the checkout right in ``folder`` that end in ``suffix``."""
    return [path for path in checkout if str(PurePosixPath(path).parent) == folder and path.endswith(suffix)]


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


def program(name: str, content: bytes) -> File:
    """The command ``name``, which is a program for one processor."""
    return File(f"usr/bin/{name}", content, 0o755)


def unit(checkout: Mapping[str, bytes], path: str) -> File:
    """A systemd unit of the checkout."""
    return File(f"usr/lib/systemd/system/{PurePosixPath(path).name}", checkout[path])


def drop_in(checkout: Mapping[str, bytes], path: str) -> File:
    """What changes a systemd unit, in the folder that is called after the unit."""
    return File(f"usr/lib/systemd/system/{PurePosixPath(path).parent.name}/{PurePosixPath(path).name}", checkout[path])


def setting(checkout: Mapping[str, bytes], name: str) -> File:
    """A settings file as it comes with its package."""
    return File(f"etc/tributary/{name}", checkout[f"debs/files/{name}"])


def rotation(checkout: Mapping[str, bytes], package: str) -> File:
    """How logrotate(8) is to treat the package's logs."""
    return File(f"etc/logrotate.d/{package}", checkout[f"debs/files/{package}.logrotate"])


def overrides(checkout: Mapping[str, bytes], package: str) -> File:
    """What lintian(1) need not say of the package, each with its reason."""
    return File(f"usr/share/lintian/overrides/{package}", checkout[f"debs/files/{package}.lintian-overrides"])
