"""Has subflows obey net.ipv4.tcp_notsent_lowat, which exempts them from Linux 6.7 on: kernel-config/low_mark.bpf.c.

Loaded and attached by libbpf, the library of iproute2.
"""

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tributary.kernel import process
from tributary.settings.errors import CommandError, Exit, refused

PIN = Path("/sys/fs/bpf/tributary-low-mark")
"""What keeps the program attached when the process that attached it has ended."""
SOURCE = "kernel-config/low_mark.bpf.c"
INSTALLED = Path("/usr/lib/tributary/low_mark.bpf.o")
"""The program, in a checkout and where the package has it."""
_LIBRARY = "libbpf.so.1"
_MOUNTS = Path("/proc/self/mounts")


def compiled(source: bytes) -> bytes:
    """The program, for every processor with the byte order of most; raises CommandError, 69 without clang(1)."""
    process.require("clang")
    headers = f"/usr/include/{os.uname().machine}-linux-gnu"
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "low_mark.bpf.o")
        command = ["clang", "-target", "bpfel", "-O2", "-g", "-Wall", "-Werror", f"-I{headers}", "-x", "c", "-c", "-"]
        done = subprocess.run([*command, "-o", made], input=source, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            raise CommandError(Exit.SYSTEM, f"clang: {done.stderr.decode().strip() or 'no reason given'}")
        return made.read_bytes()


@contextmanager
def obeyed(program: bytes) -> Iterator[None]:
    """All processes' new subflows obey it for the length of the block; raises CommandError as ``main`` does."""
    with _attached(program):
        yield


@contextmanager
def _attached(program: bytes) -> Iterator[tuple[ctypes.CDLL, int]]:
    """The library, and the link that ends with this block unless it is pinned."""
    library = _opened()
    made = _succeeded(library.bpf_object__open_mem(program, len(program), None), "read")
    try:
        if library.bpf_object__load(made):
            raise _failure("load")
        group = os.open(_root(), os.O_RDONLY | os.O_DIRECTORY)
        try:
            link = library.bpf_program__attach_cgroup(library.bpf_object__next_program(made, None), group)
        finally:
            os.close(group)
        link = _succeeded(link, "attach")
        try:
            yield library, link
        finally:
            library.bpf_link__destroy(link)
    finally:
        library.bpf_object__close(made)


def _opened() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_LIBRARY, use_errno=True)
    except OSError as error:
        raise CommandError(Exit.UNAVAILABLE, f"{_LIBRARY} is missing: install libbpf1") from error
    pointer, number, string = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
    declared: dict[str, tuple[Any, Sequence[Any]]] = {
        "bpf_object__open_mem": (pointer, (string, ctypes.c_size_t, pointer)),
        "bpf_object__load": (number, (pointer,)),
        "bpf_object__next_program": (pointer, (pointer, pointer)),
        "bpf_object__close": (None, (pointer,)),
        "bpf_program__attach_cgroup": (pointer, (pointer, number)),
        "bpf_link__pin": (number, (pointer, string)),
        "bpf_link__destroy": (number, (pointer,)),
    }
    for name, (result, arguments) in declared.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def is_kept() -> bool | None:
    """Whether the program is attached by PIN; None for who may not look, since that is root's alone."""
    try:
        PIN.stat()
    except PermissionError:
        return None
    except OSError:
        return False
    return True


def _root() -> Path:
    """Where the control groups of version 2 begin (cgroups(7))."""
    for mount in _MOUNTS.read_text().splitlines():
        _, where, kind, *_ = mount.split()
        if kind == "cgroup2":
            return Path(where)
    raise CommandError(Exit.UNAVAILABLE, "there are no control groups of version 2 (cgroups(7))")


def _succeeded(pointer: int | None, what: str) -> int:
    if not pointer:
        raise _failure(what)
    return pointer


def _failure(what: str) -> CommandError:
    reason = os.strerror(ctypes.get_errno())
    return CommandError(Exit.UNAVAILABLE, f"this kernel does not {what} the low mark's program (bpf(2)): {reason}")


def main(_arguments: Sequence[str]) -> int:
    """What its unit runs: attaches the program for as long as PIN is there.

    Raises CommandError (69) where the kernel, its control groups or the library cannot do it.
    """
    with refused(Exit.NO_INPUT, INSTALLED):
        program = INSTALLED.read_bytes()
    with _attached(program) as (library, link):
        # Not before: where the kernel refuses the program, as in a container, /sys may be read-only as well.
        with refused(Exit.NO_PERMISSION, PIN, "cannot be replaced"):
            PIN.unlink(missing_ok=True)
        if library.bpf_link__pin(link, os.fsencode(PIN)):
            raise _failure("keep")
    return 0
