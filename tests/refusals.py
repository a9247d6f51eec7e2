"""How a command refuses wrong arguments, and anything else that it cannot do."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from tributary.settings.errors import CommandError, Exit


def usage_error(
    main: Callable[[Sequence[str]], object], words: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> str:
    """What ``main`` says to these arguments, which it must refuse with exit 64 and without any other output."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (Exit.USAGE, "")
    return printed.err


@contextmanager
def command_error(code: Exit, *said: str, begins: str = "") -> Iterator[pytest.ExceptionInfo[CommandError]]:
    """The block ends with a CommandError of this exit code, whose message has all of ``said``.

    A message that ``begins`` with its file is one line.
    """
    with pytest.raises(CommandError) as caught:
        yield caught
    message = str(caught.value)
    assert (caught.value.code, message[: len(begins)]) == (code, begins), message
    assert [part for part in said if part not in message] == [], message
    assert not begins or "\n" not in message
