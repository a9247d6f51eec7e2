import json
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.ansible.playbooks import ANSIBLE, load, script

anycast = load(ANSIBLE / "roles/anycast/files/tributary_anycast.py")

UP = """BIRD 2.0.12 ready.
Name       Proto      Table      State  Since         Info
anycast4   Static     master4    up     21:09:11.042
anycast6   Static     master6    up     21:09:11.042
"""
BGP = """router4_1  BGP        ---        start  21:09:11.042  Active        Socket: Connection refused
router4_2  BGP        ---        up     21:09:12.042  Established
router6_3  BGP        ---        up     21:09:12.042  Established
"""
OSPF = """routers4   OSPF       master4    up     21:09:11.042  Running
routers6   OSPF       master6    up     21:09:11.042  Running
"""


@pytest.mark.parametrize(
    ("printed", "up"),
    [
        (UP, True),
        (UP.replace("up  ", "down", 1), False),
        (UP.replace("up  ", "down"), False),
        ("BIRD 2.0.12 ready.\n", False),
        ("", False),
    ],
)
def test_a_node_is_announced_when_all_of_its_protocols_are_up(printed: str, up: bool) -> None:
    assert anycast.is_up(printed) is up


@pytest.mark.parametrize(
    ("routers", "heard"),
    [
        (BGP, True),
        (BGP.replace("Established", "OpenConfirm"), False),
        (BGP.replace("Established", "OpenConfirm", 1), False),
        (BGP.replace("router6_3", "router4_3"), False),
        (OSPF, True),
        (OSPF.replace("Running", "Alone"), False),
        (OSPF.replace("Running", "Alone", 1), False),
        ("", False),
    ],
)
def test_a_node_is_heard_by_routers_with_which_a_session_of_each_ip_version_stands(routers: str, heard: bool) -> None:
    assert anycast.is_heard(UP + routers) is heard


@pytest.mark.parametrize(
    ("looks", "well"),
    [
        ("", False),
        ("-", False),
        ("+", True),
        ("+-", True),
        ("+--", False),
        ("+-+-", True),
        ("+--+", True),
        ("--+", True),
    ],
)
def test_a_node_is_well_from_the_first_answer_on_until_two_in_a_row_are_missing(looks: str, well: bool) -> None:
    health = anycast.Health(most=2)
    for look in looks:
        health = health.after(look == "+")
    assert health.well is well


@pytest.mark.parametrize(("said", "well"), [(b"HTTP/1.1 403 No\r\n", True), (b"SSH-2.0\r\n", False), (b"", False)])
def test_a_proxy_answers_when_it_speaks_http(said: bytes, well: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(said)

        threading.Thread(target=serve).start()
        assert anycast.answers("127.0.0.1", listener.getsockname()[1]) is well


def test_subflows_of_a_session_are_one_connection_and_plain_tcp_is_one_each() -> None:
    subflow = "0 0 198.51.100.80:3129 10.0.0.{}:4 cubic tcp-ulp-mptcp flags:Mmec token:{}(id:0)/5d400ea0(id:0) seq:1"
    plain = "0 0 198.51.100.80:3129 10.0.0.{}:4 cubic wscale:7,7"
    printed = [subflow.format(1, "0000"), subflow.format(2, "1e872653"), plain.format(1), plain.format(2)]
    assert len(set(map(anycast.session, printed))) == 3


def test_a_port_where_nothing_listens_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert anycast.answers("127.0.0.1", port) is False


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose programs are found first, and that has what the program notes."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for constant, name in {"ADDRESSES": "set.json", "DRAINED": "drained", "STATUS": "status.json"}.items():
        monkeypatch.setattr(anycast, constant, tmp_path / name)
    return tmp_path


@pytest.fixture
def bird(place: Path) -> Path:
    """A birdc that keeps its protocols' state in a file, and the flag of drained nodes beside it."""
    state = place / "state"
    state.write_text("up")
    (place / "routers").write_text(BGP)
    script(
        place / "birdc",
        f'echo "$*" >>{place}/asked\n'
        f'case "$1" in enable) echo up >{state} ;; disable) echo down >{state} ;; esac\n'
        f'[ "$1 $2" = "show protocols" ] || exec [ "$2" = \'"anycast*"\' ]\n'
        f'echo "anycast4 Static master4 $(cat {state}) 21:09:11.042"\n'
        f"cat {place}/routers\n",
    )
    return state


def test_a_node_that_no_router_hears_is_not_announced(
    bird: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bird.with_name("routers").write_text(BGP.replace("Established", "OpenSent"))
    monkeypatch.setattr(anycast, "_ANNOUNCE_TIMEOUT", 0.0)
    assert anycast.main(["status"]) == 1
    assert anycast.main(["announce"]) == 1
    said = capsys.readouterr()
    assert said.out == "no router hears it: `birdc show protocols` says why\n"
    assert said.err.startswith("not announced after 0 s: no router hears it: ")
    assert anycast.settle(True, anycast.protocols()) is False  # it waits for the router, and goes on offering


def test_who_drains_is_withdrawn_and_stays_so(bird: Path) -> None:
    assert anycast.main(["drain"]) == 0
    assert bird.read_text().strip() == "down"
    assert anycast.drained() == "maintenance"
    assert anycast.main(["status"]) == 1


def test_a_node_whose_folder_a_broken_off_run_has_removed_is_drained(
    bird: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As one that leaves its fleet: the next run begins by that."""
    monkeypatch.setattr(anycast, "DRAINED", tmp_path / "tributary/anycast/drained")
    assert anycast.main(["drain", "--reason", "upgrade"]) == 0
    assert (bird.read_text().strip(), anycast.drained()) == ("down", "upgrade")


def test_an_upgrade_does_not_end_an_administrators_drain(bird: Path, capsys: pytest.CaptureFixture[str]) -> None:
    anycast.main(["drain"])
    assert anycast.main(["drain", "--reason", "upgrade"]) == 0
    assert anycast.main(["announce", "--reason", "upgrade"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "stays withdrawn: drained (maintenance)"
    assert bird.read_text().strip() == "down"


def test_an_upgrades_own_drain_ends_with_it(bird: Path) -> None:
    anycast.main(["drain", "--reason", "upgrade"])
    bird.write_text("up")  # as the watch does once nothing holds the node back
    assert anycast.main(["announce", "--reason", "upgrade"]) == 0
    assert anycast.drained() is None


def test_nothing_is_asked_of_bird_that_is_so_already(bird: Path) -> None:
    assert anycast.settle(True, anycast.protocols()) is False
    assert anycast.settle(False, anycast.protocols()) is True
    assert anycast.settle(False, anycast.protocols()) is False
    assert bird.read_text().strip() == "down"


class Stopped(Exception):
    """The watch would go on for ever."""


@pytest.mark.usefixtures("bird")
def test_the_watch_writes_what_it_has_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interval, sleep = 3600.0, time.sleep

    def stop(seconds: float) -> None:
        if seconds == interval:
            raise Stopped
        sleep(seconds)

    monkeypatch.setattr(anycast.time, "sleep", stop)

    def written(proxies: list[tuple[str, int]]) -> tuple[object, ...]:
        with pytest.raises(Stopped):
            anycast.watch(proxies, 2, interval)
        status = json.loads((tmp_path / "status.json").read_text())
        assert abs(status["time"] - time.time()) < 5
        return status["announced"], status["drained"], status["answers"], status["heard"]

    assert written([]) == (True, None, True, True)
    assert (tmp_path / "asked").read_text() == "show protocols\n", "BIRD is asked once"
    (tmp_path / "routers").write_text("")
    assert written([]) == (False, None, True, False)
    (tmp_path / "routers").write_text(OSPF)
    anycast.main(["drain", "--reason", "upgrade"])
    assert written([]) == (False, "upgrade", True, True)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert written([("127.0.0.1", 1)]) == (None, "upgrade", False, False)


def test_without_bird_every_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert anycast.main(["status"]) == 69
    assert capsys.readouterr().err.startswith("tributary-anycast: birdc does not answer: ")


@pytest.mark.parametrize(
    ("state", "code"), [("failed", 0), ("inactive", 0), ("active", 69), ("activating", 69), ("", 69)]
)
def test_a_node_without_bird_counts_as_withdrawn_and_one_whose_bird_hangs_does_not(
    state: str, code: int, bird: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script(bird.with_name("birdc"), "echo Unable to connect to server control socket >&2; exit 1\n")
    script(bird.with_name("systemctl"), f'[ "$1 $4" = "show bird.service" ] && echo {state}\n')
    assert anycast.main(["drain", "--reason", "upgrade"]) == code
    assert anycast.drained() == "upgrade"
    assert (capsys.readouterr().out == "withdrawn: BIRD does not run\n") is (code == 0)


IP = """\
state=$0.state
echo "$*" >>$0.log
case "$*" in
"-j mptcp endpoint show") [ -s $state ] && echo "[$(paste -sd, $state)]" ;;
"mptcp endpoint add "*) grep -q '"id": '$6, $state && exit 2; echo '{"id": '$6', "address": "'$4'"}' >>$state ;;
"mptcp endpoint delete "*) sed -i '/"id": '$5',/d' $state ;;
esac
exit 0
"""


def test_an_address_that_changes_takes_the_place_of_the_one_before(place: Path) -> None:
    script(place / "ip", IP)
    (endpoints := place / "ip.state").write_text('{"id": 7, "address": "10.0.0.1"}\n')

    def reload(*words: str) -> list[str]:
        (place / "ip.log").write_text("")
        assert anycast.main(["addresses", *words]) == 0
        return [line for line in (place / "ip.log").read_text().splitlines() if "replace" not in line][1:]

    shared = ("--shared", "198.51.100.80", "--shared", "2001:db8:80::80", "--other", "198.51.100.12")
    assert reload(*shared, "--own", "198.51.100.11", "--own", "2001:db8:80:0::11") == [
        "mptcp endpoint add 198.51.100.11 id 101 signal",
        "mptcp endpoint add 2001:db8:80::11 id 102 signal",
    ]
    assert reload(*shared, "--own", "198.51.100.11", "--own", "2001:db8:80::11") == []
    assert reload(*shared[:4], "--own", "198.51.100.12", "--own", "2001:db8:80::11") == [
        "mptcp endpoint delete id 101",
        "route del local 198.51.100.12 dev lo",
        "address del 198.51.100.11/32 dev lo",
        "mptcp endpoint add 198.51.100.12 id 101 signal",
    ]
    assert reload() == [
        *(f"mptcp endpoint delete id {number}" for number in (102, 101)),
        *("address del 198.51.100.80/32 dev lo", "address del 2001:db8:80::80/128 dev lo"),
        *("address del 198.51.100.12/32 dev lo", "address del 2001:db8:80::11/128 dev lo"),
    ]
    assert endpoints.read_text() == '{"id": 7, "address": "10.0.0.1"}\n'


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", '{"local": 5, "routes": []}', '{"local": []}'),
        *('{"local": "10.0.0.1", "routes": []}', '{"local": ["lo"], "routes": []}'),
    ],
)
def test_a_damaged_list_of_what_was_set_is_named_and_everything_set(
    text: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script(place / "ip", IP)
    (place / "set.json").write_text(text)
    assert anycast.main(["addresses", "--shared", "198.51.100.80"]) == 0
    assert f"{place}/set.json: cannot be read" in capsys.readouterr().err
    assert (place / "set.json.broken").read_text() == text
    assert "address replace 198.51.100.80/32 dev lo" in (place / "ip.log").read_text()
    assert json.loads((place / "set.json").read_text()) == {"local": ["198.51.100.80"], "routes": []}


def test_what_a_start_that_failed_has_set_is_known_to_the_next_one() -> None:
    unit = (ANSIBLE / "roles/anycast/templates/tributary-anycast-addresses.service.j2").read_text()
    assert "\nRuntimeDirectoryPreserve=yes\n" in unit


def test_an_address_that_the_kernel_does_not_take_is_said(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(place / "ip", '[ "$2" != endpoint ] || { echo RTNETLINK answers: Device or resource busy >&2; exit 2; }\n')
    assert anycast.main(["addresses", "--own", "198.51.100.11"]) == 69
    assert "Device or resource busy" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["", "run", "run --http nowhere", "drain --port x", "addresses --own x"])
def test_wrong_arguments_end_with_64(words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        anycast.main(words.split())
    assert ended.value.code == 64
