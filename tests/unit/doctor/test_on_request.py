"""What is asked of the doctor by a socket, and refused; tests/netns has what it fixes."""

import socket
import subprocess

import pytest

pytest.importorskip("prometheus_client")

from doctor.examination import ON_REQUEST, Role, checks, examine
from doctor.findings import Finding, State, ok
from tests.doctor_fix import PROGRAM, asked
from tributary.paths import ROOT
from tributary.settings.errors import Exit


@pytest.mark.parametrize("request_", [b"routing\n", b"kernel\n", b"\n", b"settings;reboot\n", b"--fix\n", b"\xff\n"])
def test_another_word_than_those_that_it_knows_is_refused_with_them(request_: bytes) -> None:
    answer = asked(request_)
    assert answer["code"] == Exit.USAGE
    assert "accepted for a gateway: mptcp, settings, rp_filter, listeners, limits, clock" in answer["failure"]


@pytest.mark.parametrize("request_", [b"settings", b"settings\nlimits\n", b"x" * 1000])
def test_what_is_no_line_or_more_than_one_is_refused(request_: bytes) -> None:
    own, other = socket.socketpair()
    with own:
        own.sendall(request_)
        own.shutdown(socket.SHUT_WR)
        done = subprocess.run(PROGRAM, cwd=ROOT, stdin=other.fileno(), capture_output=True, timeout=60, check=False)
        other.close()
        assert b"accepted: the name of a check, and a newline" in own.recv(65536)
    assert (done.returncode, done.stdout) == (0, b"")


def test_what_is_fixed_on_request_is_a_check_and_cannot_lock_anyone_out() -> None:
    assert checks(Role.GATEWAY).keys() | checks(Role.ROUTER).keys() > ON_REQUEST
    assert not ON_REQUEST & {"routing", "firewall", "console"}


def test_only_what_is_wrong_and_has_a_command_may_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        Finding("a", State.WRONG, "", (("x",),)),
        Finding("a", State.WRONG, "", advice="ask somebody"),
        Finding("a", State.NOTE, "", (("x",),)),
        ok("a", ""),
    ]
    same = dict.fromkeys(("limits", "routing"), lambda: found)
    monkeypatch.setattr("doctor.examination.checks", lambda _role: same)
    assert [each.fix_name for each in examine(Role.GATEWAY, ["limits"])] == ["limits", None, None, None]
    assert [each.fix_name for each in examine(Role.GATEWAY, ["routing"])] == [None] * 4
