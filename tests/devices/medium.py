"""A medium that does what a test says: flips bits, gives errors, stands still, vanishes.

A loop device needs a file, and this file is served by the test itself: a FUSE file system of one file, which is its own
root (linux/fuse.h, protocol 7.31). So the device, the kernel's block layer and its page cache are the real ones; what
goes wrong is below them, where it goes wrong on a real card.
"""

import ctypes
import errno
import os
import select
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_GETATTR, _SETATTR, _OPEN, _READ, _WRITE, _RELEASE, _FSYNC, _INIT = 3, 4, 14, 15, 16, 18, 20, 26
_SILENT = (2, 36, 42)  # FORGET, INTERRUPT and BATCH_FORGET get no answer

_IN = struct.Struct("<IIQQIIIHH")  # length, operation, unique, node, user, group, process, ...
_OUT = struct.Struct("<IiQ")  # length, error, unique
_PLACE = struct.Struct("<QQI")  # of reading and writing: handle, offset, size
_WRITE_HEAD = 40  # bytes before what is written
_ATTRIBUTES = struct.Struct("<QI4x" + "QQQQQQ" + "IIIIIIIIII")  # valid for, then struct fuse_attr
_INIT_ANSWER = struct.Struct("<IIIIHHIIHH32x")
_FLAG_MAX_PAGES, _PAGES = 1 << 22, 256
_OPEN_DIRECTLY = 1  # each read and write comes here
_MOST = _PAGES * 4096
_FILE_MODE = 0o100600
_MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


class Medium:
    """``size`` bytes in ``data``. Set ``on_write`` or ``on_read`` to a function of the offset and the bytes that
    returns what is written or read instead, raises OSError, or waits."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.on_write: Callable[[int, bytes], bytes] = lambda _offset, data: data
        self.on_read: Callable[[int, bytes], bytes] = lambda _offset, data: data

    def serve(self, channel: int, over: int) -> None:
        """Answer the kernel until the file system is gone, or ``over`` can be read."""
        replies: list[threading.Thread] = []
        while over not in select.select([channel, over], [], [])[0]:
            try:
                request = os.read(channel, _MOST + 4096)
            except OSError:
                break
            # A thread for each: while one waits, others are answered.
            replies.append(threading.Thread(target=self._reply, args=(channel, request), daemon=True))
            replies[-1].start()
        for reply in replies:
            reply.join()

    def _reply(self, channel: int, request: bytes) -> None:
        _, operation, unique, *_ = _IN.unpack_from(request)
        if operation in _SILENT:
            return
        try:
            answer, error = self._answer(operation, request[_IN.size :]), 0
        except OSError as failure:
            answer, error = b"", -(failure.errno or errno.EIO)
        with suppress(OSError):  # gone in between
            os.write(channel, _OUT.pack(_OUT.size + len(answer), error, unique) + answer)

    def _answer(self, operation: int, body: bytes) -> bytes:
        if operation == _INIT:
            major, minor, readahead, _ = struct.unpack_from("<IIII", body)
            return _INIT_ANSWER.pack(major, min(minor, 31), readahead, _FLAG_MAX_PAGES, 4, 4, _MOST, 1, _PAGES, 0)
        if operation in (_GETATTR, _SETATTR):
            size = len(self.data)
            return _ATTRIBUTES.pack(0, 0, 1, size, size // 512, *(0,) * 6, _FILE_MODE, 1, *(0,) * 3, 4096, 0)
        if operation == _OPEN:
            return struct.pack("<QII", 0, _OPEN_DIRECTLY, 0)
        if operation == _READ:
            _, offset, size = _PLACE.unpack_from(body)
            return self.on_read(offset, bytes(self.data[offset : offset + size]))
        if operation == _WRITE:
            return self._write(body)
        if operation in (_RELEASE, _FSYNC):
            return b""
        raise OSError(errno.ENOSYS, "no such operation here")

    def _write(self, body: bytes) -> bytes:
        _, offset, size = _PLACE.unpack_from(body)
        data = self.on_write(offset, body[_WRITE_HEAD : _WRITE_HEAD + size])
        self.data[offset : offset + size] = data
        return struct.pack("<II", size, 0)


@contextmanager
def served(medium: Medium, path: Path) -> Iterator[int]:
    """``medium`` as an open file, of which this gives the descriptor.

    It is mounted at ``path`` for a moment only: a mount namespace that somebody makes meanwhile would keep it.
    """
    path.touch()
    with ExitStack() as made:
        channel = os.open("/dev/fuse", os.O_RDWR)
        made.callback(os.close, channel)  # whoever still uses the medium now gets errors
        over = os.eventfd(0)
        made.callback(os.close, over)
        _mount(path, channel)
        try:
            thread = threading.Thread(target=medium.serve, args=(channel, over), daemon=True)
            thread.start()
            made.callback(thread.join, 10)
            made.callback(os.eventfd_write, over, 1)
            # At the first close the kernel learns that there is no FLUSH here. Later it would ask a process that forks,
            # or is killed, and cannot answer itself.
            os.close(os.open(path, os.O_RDWR))
            file = os.open(path, os.O_RDWR)
            made.callback(os.close, file)
        finally:
            _libc.umount2(bytes(path), _MNT_DETACH)
        yield file


def _mount(path: Path, channel: int) -> None:
    options = f"fd={channel},rootmode={_FILE_MODE:o},user_id=0,group_id=0,max_read={_MOST}"
    if _libc.mount(b"medium", bytes(path), b"fuse", 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount of a FUSE file system")
