"""What the command says of programs that hang."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from command import box, mapping, monitor
from command.monitor import essence
from command.show import Listed
from console import looking
from tests.refusals import command_error
from tests.unit.throttler.answer import answer
from tributary.api.documents import Link, Service, Session
from tributary.api.places import GATEWAY, ROUTER, THROTTLER
from tributary.daemons import directories
from tributary.daemons.control import Control, Silent, place
from tributary.settings.errors import CommandError, Exit

PATIENCE = 0.2


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """The sockets of these programs, which accept and say nothing."""
    monkeypatch.setattr(directories, "RUN", tmp_path)
    monkeypatch.setattr(box, "CONVERTER", tmp_path / "converter.sock")
    monkeypatch.setattr(box, "_ANSWER_TIMEOUT", PATIENCE)
    monkeypatch.setattr(looking, "PATIENCE", PATIENCE)
    listeners = [socket.socket(socket.AF_UNIX) for _ in request.param]
    for listener, program in zip(listeners, request.param, strict=True):
        listener.bind(str(program.path if isinstance(program, Control) else tmp_path / program))
        listener.listen()
    yield
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize("silent", [[ROUTER]], indirect=True)
@pytest.mark.usefixtures("silent")
def test_a_router_that_hangs_is_named_and_not_the_throttler_that_is_not_there() -> None:
    with command_error(Exit.UNAVAILABLE, "the router daemon does not answer: timed out"):
        box.Answers(PATIENCE, PATIENCE).links()
    states = {each.name: each.state for each in box.Answers(PATIENCE, PATIENCE).daemons()}
    assert states["router"] == "does not answer"
    assert states["throttler"] == "does not run"


@pytest.mark.parametrize("silent", [[ROUTER, GATEWAY, THROTTLER, "converter.sock"]], indirect=True)
@pytest.mark.usefixtures("silent")
def test_each_program_that_hangs_is_named_once_at_a_look() -> None:
    look = looking.take(None).look
    assert sorted(note.partition(" does not answer")[0] for note in look.notes if "does not answer" in note) == [
        "the converter", "the gateway's service", "the router daemon", "the throttler",
    ]  # fmt: skip
    assert {essence(each) for each in look.services} == {"does not answer"}
    assert all(each.summary for each in look.services)


@pytest.mark.parametrize("silent", [[]], indirect=True)
@pytest.mark.usefixtures("silent")
def test_what_is_not_there_is_not_blamed_for_silence() -> None:
    look = looking.take(None).look
    assert {essence(each) for each in look.services} == {"does not run"}
    assert "no throttler runs in this network namespace, nor does a router" in look.notes


@pytest.mark.parametrize("silent", [["converter.sock"]], indirect=True)
@pytest.mark.usefixtures("silent")
def test_the_machines_converter_is_asked_beside_what_a_killed_one_has_left() -> None:
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(place("converter")))
    with command_error(Exit.UNAVAILABLE, f"the converter does not answer at {box.CONVERTER}"):
        box.converter()


@pytest.mark.parametrize("silent", [[]], indirect=True)
@pytest.mark.usefixtures("silent")
def test_a_network_namespaces_own_converter_is_asked_by_one_connection() -> None:
    with converter_that_answers(b'{"version": "1"}') as asked:
        assert box.converter() == {"version": "1"}
    assert len(asked) == 1


@pytest.mark.parametrize("silent", [[]], indirect=True)
@pytest.mark.parametrize("answer", [b"", b"[" * 100_000, b"\xff"], ids=["nothing", "too deep", "no text"])
@pytest.mark.usefixtures("silent")
def test_a_converter_whose_answer_cannot_be_read_is_named(answer: bytes) -> None:
    with converter_that_answers(answer), command_error(Exit.UNAVAILABLE, "the converter does not answer at "):
        box.converter()


@contextmanager
def converter_that_answers(answer: bytes) -> Iterator[list[socket.socket]]:
    """The connections that it was asked by. However busy the machine is, its answer is waited for."""
    asked = []

    def serve(listener: socket.socket) -> None:
        with suppress(TimeoutError):
            while True:
                connection, _ = listener.accept()
                asked.append(connection)
                with suppress(BrokenPipeError), connection:
                    connection.sendall(answer)
                listener.settimeout(PATIENCE)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place("converter")))
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(box, "_ANSWER_TIMEOUT", 60.0)
                yield asked
        finally:
            thread.join()


def test_a_throttler_of_another_version_is_named_as_one_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_router(_timeout: float) -> dict[str, Any]:
        raise CommandError(Exit.UNAVAILABLE, "no router daemon runs")

    monkeypatch.setattr(Control, "ask", lambda *_, **__: {"weather": "fine"})
    monkeypatch.setattr(box, "router", no_router)
    (note,) = box.Answers(PATIENCE, PATIENCE).notes()
    assert note == "the throttler does not answer in words of this version: restart it (policy)"


def test_devices_of_another_version_s_daemon_are_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = box.Answers(PATIENCE, PATIENCE)
    monkeypatch.setattr(box.Answers, "_lan", {"devices": [{"device": "02:00:5e:10:00:01"}], "moment": 0.0})
    with command_error(Exit.UNAVAILABLE, "the router daemon does not answer in words of this version: restart it"):
        answers.devices()


def wan(**known: object) -> dict[str, object]:
    """What a router says of a link."""
    unknown = dict.fromkeys(("reason", "interface", "use", "probe", "cap", "state_age_s"))
    return {**unknown, "name": "dsl", "state": "up", "standby": False, "diagnosis": [], **known}


def test_a_link_that_works_needs_no_advice() -> None:
    found = [{"code": code, "text": code} for code in ("works", "small-packets")]
    assert mapping.wan_link(wan(diagnosis=found)).advice == ("small-packets",)


def test_the_rates_of_a_link_that_is_down_are_those_that_were_set() -> None:
    shaper = {"download": None, "upload": 10, "max_download": 100, "max_upload": 20}
    link = mapping.wan_link(wan(shaper=shaper))
    assert (link.download, link.upload) == (100, 10)


def test_what_a_silent_program_has_told_before_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be busy for a minute, and its sessions go on."""
    running = {"throttler": True, "router": True}
    listed = [mapping.link(name=kind, kind=kind, state="up") for kind in ("wan", "path")]

    def services(_answers: object) -> list[Service]:
        return [Service(name=name, running=runs, uptime=1, summary="x") for name, runs in running.items()]

    def links(_answers: object) -> Listed[Link]:
        return Listed([each for each in listed if running["router" if each.kind == "wan" else "throttler"]], 0.0)

    def sessions(_answers: object) -> Listed[Session]:
        if not running["throttler"]:
            raise Silent("the throttler does not answer: timed out")
        return Listed(answer().sessions, 0.0)

    for each in (services, links, sessions):
        monkeypatch.setattr(box.Answers, each.__name__, each)
    before = monitor.look({})
    assert len(before) == 5
    for name in running:
        running.update(dict.fromkeys(running, True) | {name: False})
        told = [change.text for change in monitor.changes(before, monitor.look(before), 0)]
        assert told == [f"service {name}: does not answer (was: runs)"]
