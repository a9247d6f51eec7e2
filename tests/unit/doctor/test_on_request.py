"""What is asked of the doctor by a socket, and refused; tests/netns has what it fixes."""

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from doctor import on_request
from doctor.examination import ON_REQUEST, Role, checks, examine
from doctor.findings import Finding, State, ok
from tests.doctor_fix import PROGRAM, asked
from tributary.paths import ROOT
from tributary.settings.errors import Exit


@pytest.mark.parametrize(
    "request_", [b"routing\n", b"kernel\n", b"clock\n", b"\n", b"settings;reboot\n", b"--fix\n", b"\xff\n"]
)
def test_another_word_than_those_that_it_knows_is_refused_with_them(request_: bytes) -> None:
    answer = asked(request_)
    assert answer["code"] == Exit.USAGE
    assert answer["failure"].endswith("accepted for a gateway: mptcp, settings, rp_filter, listeners, limits")


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


Answering = Callable[[bytes], Any]
WRONG = Finding("limits", State.WRONG, "too few", (("true",),))


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Answering:
    """What a doctor answers whose limits are wrong, without a process of its own; it records in ``tmp_path``."""
    same = {"limits": lambda: [WRONG]}
    monkeypatch.setattr("doctor.examination.checks", lambda _role: same)
    monkeypatch.setattr(on_request, "checks", lambda _role: same)
    monkeypatch.setattr(on_request, "EXAMINED", tmp_path / "run/findings.json")
    monkeypatch.setattr(on_request, "need_root", lambda _why: None)

    def answer(request: bytes) -> Any:
        own, other = socket.socketpair()
        with own, other:
            monkeypatch.setattr(on_request, "dup", lambda _standard_input: os.dup(other.fileno()))
            own.sendall(request)
            assert on_request.main([]) == 0
            return json.loads(own.recv(65536))

    return answer


def test_what_was_run_is_answered_where_it_cannot_be_recorded(answered: Answering, tmp_path: Path) -> None:
    (tmp_path / "run/findings.json/in the way").mkdir(parents=True)
    answer = answered(b"limits\n")
    assert (answer["ran"], answer["left"]) == ([{"command": "true", "failure": None}], ["too few"])
    (note,) = answer["notes"]
    assert "findings.json: cannot be written" in note


def test_what_was_run_is_answered_if_it_cannot_look_again(answered: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([[WRONG]])
    same = {"limits": lambda: next(looks, None) or (Path("/nowhere").read_text() and [])}
    monkeypatch.setattr("doctor.examination.checks", lambda _role: same)
    answer = answered(b"limits\n")
    assert (len(answer["ran"]), answer["left"]) == (1, [])
    assert "No such file" in answer["notes"][0]


def test_what_cannot_be_examined_after_a_fix_is_not_said_to_be_right(
    answered: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([[WRONG], [Finding("limits", State.UNKNOWN, "nft hangs")]])
    same = {"limits": lambda: next(looks), "mptcp": lambda: [Finding("MPTCP", State.UNKNOWN, "no tool")]}
    monkeypatch.setattr("doctor.examination.checks", lambda _role: same)
    answer = answered(b"limits\n")
    assert (len(answer["ran"]), answer["left"]) == (1, [])
    assert answer["notes"] == ["it could not be examined: nft hangs"]


def test_if_the_system_refuses_before_anything_is_run_the_answer_says_so(answered: Answering, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    answer = answered(b"limits\n")
    assert answer["code"] == Exit.SYSTEM and "Not a directory" in answer["failure"]


def test_what_cuts_connections_is_not_run_on_request(answered: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = Finding("limits", State.WRONG, "takes TCP alone", (("false",),), cuts=True)
    monkeypatch.setattr("doctor.examination.checks", lambda _role: {"limits": lambda: [cuts, WRONG]})
    assert [each.fix_name for each in examine(Role.GATEWAY, ["limits"])] == [None, "limits"]
    assert [each["command"] for each in answered(b"limits\n")["ran"]] == ["true"]
