"""One at a time looks and records: else findings of before a fix take the place of those of after it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tributary.daemons import directories
from tributary.settings.errors import CommandError, Exit


@contextmanager
def held(record: Path) -> Iterator[None]:
    """Wait until nobody else is between looking and writing to ``record``; raises CommandError, exit 71."""
    with ExitStack() as stack:
        try:
            directories.make_run(record.parent)
            stack.enter_context(directories.lock_file(record.with_suffix(".lock"), wait=True))
        except OSError as error:
            raise CommandError(Exit.SYSTEM, f"{record}: cannot be written: {error.strerror}") from error
        yield
