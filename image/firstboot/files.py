"""Files of a system, all of them or none: every new one is on the disk before the first takes its place."""

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from image.firstboot.actions import MakeFolder, OnFiles, Owner, RemoveFile, SetPassword, WriteFile
from tributary.settings.errors import CommandError, Exit, refused

_SHADOW = "/etc/shadow"
_LOCK = "/etc/.pwd.lock"


@contextmanager
def changed(root: Path, actions: Sequence[OnFiles]) -> Iterator[None]:
    """The system below ``root`` with ``actions`` done for the block, and from then on, if the block ends well.

    Else all files are as they were before. Raises CommandError (71) if the system refuses one.
    """
    with _passwords_locked(root), ExitStack() as undoing:
        with refused(Exit.SYSTEM, "a file", "cannot be written"):
            prepared = [_prepared(root, action, undoing) for action in (*actions, *_shadow(root, actions))]
            made = [each for each in prepared if each is not None]
            for path, fresh in made:
                _put(path, fresh, undoing)
        yield
        undoing.pop_all()
    for path, _ in made:
        _beside(path, "old").unlink(missing_ok=True)
    os.sync()


def news(root: Path, actions: Iterable[OnFiles]) -> frozenset[str]:
    """The files that ``actions`` would write, and that are not there yet with this text."""
    texts = {inside(root, each.path): each for each in actions if isinstance(each, WriteFile)}
    new = (path for path, each in texts.items() if not path.is_file() or path.read_bytes() != each.text.encode())
    return frozenset(texts[path].path for path in new)


def inside(root: Path, path: str) -> Path:
    """Where the absolute ``path`` of a system below ``root`` is."""
    return root / path.lstrip("/")


def _beside(path: Path, what: str) -> Path:
    """A name that the readers of folders such as dnsmasq.d and sudoers.d pass over."""
    return path.with_name(f".{path.name}.tributary-{what}")


@contextmanager
def _passwords_locked(root: Path) -> Iterator[None]:
    """As lckpwdf(3) does it, for the length of the block; raises CommandError (71)."""
    path = inside(root, _LOCK)
    with refused(Exit.SYSTEM, path, "cannot be written"):
        lock = path.open("w")
    with lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        yield


def _shadow(root: Path, actions: Iterable[OnFiles]) -> Iterator[WriteFile]:
    """The passwords as one file more, if any is to be set."""
    wanted = [action for action in actions if isinstance(action, SetPassword)]
    if not wanted:
        return
    path = inside(root, _SHADOW)
    text, status = path.read_text(), path.stat()
    for action in wanted:
        text = _with_password(text, action.user, action.hashed)
    yield WriteFile(_SHADOW, text, status.st_mode & 0o7777, Owner(status.st_uid, status.st_gid))


def _with_password(shadow: str, user: str, hashed: str | None) -> str:
    """The text ``shadow`` (shadow(5)) with ``hashed`` for ``user``; None locks, and leaves what is locked already.

    Raises CommandError (69) if there is no such user.
    """
    lines = [line.split(":") for line in shadow.splitlines()]
    own = next((fields for fields in lines if fields[0] == user and len(fields) > 1), None)
    if own is None:
        raise CommandError(Exit.UNAVAILABLE, f"/etc/shadow has no user {user}: the image has to bring one")
    if hashed is not None:
        own[1] = hashed
    elif not own[1].startswith(("!", "*")):
        own[1] = "!"
    return "".join(":".join(fields) + "\n" for fields in lines)


def _prepared(root: Path, action: OnFiles, undoing: ExitStack) -> tuple[Path, Path | None] | None:
    """A path, and the new file for it, None where none shall be. Nothing has changed yet but that there are folders."""
    match action:
        case WriteFile(name, text, mode, owner):
            path = inside(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            return path, _fresh(_beside(path, "new"), text, mode, owner, undoing)
        case RemoveFile(name):
            return inside(root, name), None
        case MakeFolder(name, mode, owner):
            folder = inside(root, name)
            folder.mkdir(parents=True, exist_ok=True)
            _own(folder, mode, owner)
    return None


def _fresh(path: Path, text: str, mode: int, owner: Owner, undoing: ExitStack) -> Path:
    undoing.callback(path.unlink, missing_ok=True)
    path.unlink(missing_ok=True)
    # Nobody may read it before it has its mode.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    _own(path, mode, owner)
    return path


def _own(path: Path, mode: int, owner: Owner) -> None:
    # In a folder of somebody who is not root, all files are his.
    if os.geteuid() == 0:
        os.chown(path, owner.user, owner.group, follow_symlinks=False)
    path.chmod(mode)


def _put(path: Path, fresh: Path | None, undoing: ExitStack) -> None:
    old = _beside(path, "old")
    old.unlink(missing_ok=True)
    if path.is_symlink() or path.exists():
        os.link(path, old, follow_symlinks=False)
        undoing.callback(old.replace, path)
    elif fresh is not None:
        undoing.callback(path.unlink, missing_ok=True)
    if fresh is not None:
        fresh.replace(path)
    else:
        path.unlink(missing_ok=True)
