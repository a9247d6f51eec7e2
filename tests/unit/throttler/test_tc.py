import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from tributary.kernel import tc
from tributary.settings.errors import CommandError

pytestmark = pytest.mark.skipif(shutil.which("tc") is None, reason="tc is not installed")

WRONG = "class del dev no-such-device classid 5452:1\n"


def test_complaints_that_nobody_asks_for_stop_neither_side() -> None:
    """Very many subflows end on an interface that is gone: nothing but drains, each of which fails."""

    def submit_async() -> None:
        for _ in range(50):
            tc.submit_async(WRONG * 300)
        tc.discard_errors()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(submit_async).result(50)


def test_the_next_line_that_is_waited_for_tells_what_failed_before() -> None:
    tc.discard_errors()
    tc.submit_async(WRONG)
    with pytest.raises(CommandError, match="Cannot find device"):
        tc.execute("qdisc help-is-not-a-verb\n")
    tc.discard_errors()


def test_a_new_process_takes_the_next_line_when_the_one_before_has_ended() -> None:
    tc.discard_errors()
    before = tc._process()
    tc.restart()
    with pytest.raises(CommandError, match="Cannot find device"):
        tc.execute(WRONG)
    assert tc._process() is not before
