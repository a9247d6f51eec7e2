import os
import signal
import time
from pathlib import Path

import pytest

from tests.netns.world import eventually
from tributary.kernel.process import TimedOut, run
from tributary.settings.errors import CommandError, Exit


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_it_prints_and_ends_with_is_returned_also_without_input_and_where_it_is_no_text() -> None:
    done = run(["sh", "-c", "cat; echo no >&2; exit 3"], "yes")
    assert (done.stdout, done.stderr, done.returncode) == ("yes", "no\n", 3)
    assert run(["cat"], timeout=5).stdout == ""
    assert run(["printf", r"\377"]).stdout == "\N{REPLACEMENT CHARACTER}"


def test_one_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    """A tc that hangs beside a daemon: the daemon goes on after a time, and nothing of it is left."""
    began = time.monotonic()
    with pytest.raises(TimedOut, match=r"sh -c .* did not end in 0\.5 s") as caught:
        run(["sh", "-c", f"sleep 600 & echo $! > {tmp_path}/child; wait"], "a secret", timeout=0.5)
    assert time.monotonic() - began < 5
    assert caught.value.code == Exit.SYSTEM and "a secret" not in str(caught.value)
    child = int((tmp_path / "child").read_text())
    assert eventually(lambda: not is_alive(child), 5)


def test_a_child_that_goes_on_in_the_background_holding_its_output_is_no_reason_to_wait_for_ever() -> None:
    began = time.monotonic()
    with pytest.raises(TimedOut):
        run(["sh", "-c", "sleep 600 & exit 0"], timeout=0.5)
    assert time.monotonic() - began < 5


def test_it_is_not_in_our_process_group_which_ctrl_c_ends() -> None:
    assert int(run(["sh", "-c", "ps -o pgid= -p $$ 2>/dev/null || cut -d' ' -f5 /proc/$$/stat"]).stdout) != os.getpgrp()


def test_a_signal_that_unwinds_us_ends_it(tmp_path: Path) -> None:
    def raised(*_: object) -> None:
        raise SystemExit(143)

    before = signal.signal(signal.SIGALRM, raised)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(SystemExit):
            run(["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 600"])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_one_that_is_not_here_is_named_with_its_package() -> None:
    with pytest.raises(CommandError, match=r"^not-here-at-all is missing: install not-here-at-all$") as caught:
        run(["not-here-at-all"])
    assert caught.value.code == Exit.UNAVAILABLE
