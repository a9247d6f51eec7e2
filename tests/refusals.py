"""How a command refuses wrong arguments."""

from collections.abc import Callable, Sequence

import pytest

from tributary.settings.errors import Exit


def usage_error(
    main: Callable[[Sequence[str]], object], words: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> str:
    """What ``main`` says to these arguments, which it must refuse with exit 64 and without any other output."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (Exit.USAGE, "")
    return printed.err
