"""Runs a program whose kernel refuses some socket options, as older ones do: LEVEL:NAME... -- PROGRAM ARGUMENT...

A seccomp filter answers setsockopt(2) for them with ENOPROTOOPT, whatever the socket is.
"""

import ctypes
import errno
import os
import struct
import sys

_SET_NO_NEW_PRIVS, _SET_SECCOMP, _MODE_FILTER = 38, 22, 2  # prctl(2)
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000  # seccomp(2)
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # classic BPF: a word of struct seccomp_data, a comparison, the verdict
_NUMBER, _LEVEL, _NAME = 0, 24, 32  # in struct seccomp_data: nr, the low words of args[1] and args[2]
_SETSOCKOPT = {"x86_64": 54, "aarch64": 208}[os.uname().machine]


def refuse(options: list[tuple[int, int]]) -> None:
    """From now on this process and those that it becomes cannot set these options."""
    program = [(_LOAD, 0, 0, _NUMBER), (_EQUAL, 1, 0, _SETSOCKOPT), (_RETURN, 0, 0, _ALLOW)]
    for level, name in options:
        program += [(_LOAD, 0, 0, _LEVEL), (_EQUAL, 0, 3, level), (_LOAD, 0, 0, _NAME), (_EQUAL, 0, 1, name)]
        program.append((_RETURN, 0, 0, _ERRNO | errno.ENOPROTOOPT))
    program.append((_RETURN, 0, 0, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    filter_ = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_SET_SECCOMP, _MODE_FILTER, filter_, 0, 0)):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    split = sys.argv.index("--")
    refuse([(int(level), int(name)) for level, _, name in (each.partition(":") for each in sys.argv[1:split])])
    os.execvp(sys.argv[split + 1], sys.argv[split + 1 :])
