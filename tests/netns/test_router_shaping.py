import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from experiments.testbed.network import standing_nodes
from tests.netns.router_world import BOTH, LTE, PORT, SERVER_4, World
from tests.netns.world import eventually, in_namespace, program, ready, run

pytestmark = pytest.mark.slow

RATES = 'download = "20mbit"\nupload = "8mbit"\n'
PLAIN = '[wan.dsl]\ninterface = "dsl"\n[wan.lte]\ninterface = "lte"\n'
SHAPED = PLAIN + RATES
IN = "tributary-in2"
FAR = "198.51.100.2"


def roots(house: World) -> dict[str, dict[str, Any]]:
    """Our root qdiscs by their devices."""
    found = json.loads(house.on_router("tc -s -json qdisc show"))
    return {each["dev"]: each for each in found if each.get("root") and each["handle"] == "5453:"}


def led(house: World, link: str = "lte") -> bool:
    """Whether what comes in is led through our device."""
    return IN in house.on_router(f"tc filter show dev {link} ingress", check=False)


def stands(house: World) -> bool:
    return roots(house).keys() == {"lte", IN} and led(house)


def everything(house: World) -> str:
    """All that could be left behind."""
    shown = house.on_router("tc qdisc show") + house.on_router("ip -o link show")
    return re.sub(r"qlen \d+|state \w+", "", shown)


def test_a_tc_that_hangs_is_given_up_and_links_go_on_being_kept(house: World) -> None:
    """Beside the daemon every tc(8) hangs: it is killed after a time, and a cut link is taken out meanwhile.

    Who asks for the status does not wait for that.
    """
    folder, hangs = house.directory / "bin", house.directory / "hangs"
    folder.mkdir()
    (folder / "tc").write_text(f'#!/bin/sh\n[ -e {hangs} ] && exec sleep 600\nexec {shutil.which("tc")} "$@"\n')
    (folder / "tc").chmod(0o755)

    waited = list[float]()

    def is_out_for(reason: str | None) -> bool:
        began = time.monotonic()
        shown = house.status()["dsl"]["reason"]
        waited.append(time.monotonic() - began)
        return bool(shown == reason)

    search = f"PATH={folder}:{os.environ['PATH']}"
    with house.daemon(SHAPED, "env", search, stderr=subprocess.PIPE) as child:
        hangs.touch()
        house.cut("dsl")
        eventually(lambda: is_out_for("no carrier"), 40)
        house.restore("dsl")
        eventually(lambda: is_out_for(None), 40)
        assert max(waited) < 4.0
        hangs.unlink()
        child.stop()
        assert "tc -json qdisc show: did not end in 5 s, and was killed" in child.complaints()


def test_a_link_with_rates_is_shaped_both_ways_and_nothing_is_left(house: World) -> None:
    before = everything(house)
    with house.daemon(SHAPED), house.transfer() as transfer:
        assert stands(house)
        house.has_subflows(*BOTH)
        house.cut("dsl")
        assert transfer.goes_on()
        eventually(lambda: all(each["packets"] > 20 for each in roots(house).values()))
        shaped = house.status()["lte"]["shaper"]
        assert (shaped["download"], shaped["upload"]) == (20_000_000, 8_000_000)
        assert house.status()["dsl"]["shaper"] is None
    house.restore("dsl")
    assert everything(house) == before


def test_what_somebody_took_away_and_an_interface_that_was_replaced_are_shaped_again(house: World) -> None:
    with house.daemon(SHAPED):
        house.on_router(f"ip link delete {IN}")
        eventually(lambda: stands(house))
        house.on_router("ip link delete lte")
        eventually(lambda: not roots(house))
        house.add_link("lte")
        eventually(lambda: stands(house))
        assert roots(house)["lte"]["options"]["rate"] == 1_000_000  # bytes


def test_a_killed_daemon_s_are_taken_over_or_away_by_the_next(house: World) -> None:
    before = everything(house)
    with house.daemon(SHAPED) as child:
        child.stop(signal.SIGKILL)
    assert stands(house)
    with house.daemon(PLAIN):
        eventually(lambda: not roots(house) and not led(house))
        assert everything(house) == before


def test_a_reload_changes_rates_in_place_and_a_plan_shows_the_commands(house: World) -> None:
    said = run(*house.command("plan", str(house.settings(SHAPED))))
    assert "tc qdisc add dev lte root handle 5453: cake bandwidth 8000000bit besteffort flows nonat" in said
    with house.daemon(SHAPED) as child:
        index = house.on_router(f"cat /sys/class/net/{IN}/ifindex")
        house.settings(SHAPED).write_text(SHAPED.replace("8mbit", "4mbit"))
        child.send_signal(signal.SIGHUP)
        eventually(lambda: roots(house)["lte"]["options"]["rate"] == 500_000)
        assert house.on_router(f"cat /sys/class/net/{IN}/ifindex") == index


def round_trip(house: World) -> float:
    """Milliseconds, the median of some."""
    said = house.on_router(f"ping -n -c 15 -i 0.05 {SERVER_4}")
    times = sorted(float(each) for each in re.findall(r"time=([\d.]+)", said))
    return times[len(times) // 2]


# Cubic fills queues, whatever this machine's own choice does.
_FAR = f"""
far:near {FAR}/24 -- provider:far 198.51.100.1/24
provider: sysctl -qw net.ipv4.ip_forward=1
far: ip route add default via 198.51.100.1 congctl cubic
"""


@contextmanager
def far_server(house: World) -> Iterator[str]:
    """One more server, behind the provider: what that sends itself would wait in its sockets (TCP small queues)."""
    with (
        standing_nodes("router-", _FAR, house.directory, house.nodes) as made,
        ready(*in_namespace(made["far"].namespace, *program("numbered_blocks", str(PORT)))),
    ):
        yield FAR


@pytest.mark.calm
def test_the_rate_of_a_link_follows_what_it_carries_and_its_delay_goes(house: World) -> None:
    """The provider's queue holds more than a second of the 6 Mbit/s that it lets pass; the transfer asks for 13."""
    house.cut("dsl")
    house.on_provider("tc qdisc add dev isp-lte root tbf rate 6mbit burst 3028 limit 1000000")
    probe = f'[probe]\ntarget = "{SERVER_4}:{PORT}"\n'
    with far_server(house) as server:
        with house.daemon(PLAIN + probe), house.transfer(server):
            eventually(lambda: round_trip(house) > 200)
        with house.daemon(SHAPED + "adapt = true\n" + probe), house.transfer(server) as transfer:
            eventually(lambda: house.status()["lte"]["shaper"]["download"] < 8_000_000)
            eventually(lambda: round_trip(house) < 100)
            assert transfer.goes_on()
            assert house.status()["lte"]["shaper"]["download"] > 2_500_000


@pytest.mark.calm
def test_an_overflow_link_is_used_when_one_that_changes_carries_less_and_not_before(house: World) -> None:
    """The transfer asks for 13 Mbit/s of the 20 that dsl is said to carry at most. Then the provider lets 6 pass."""
    dsl = '[wan.dsl]\ninterface = "dsl"\ndownload = "20mbit"\nadapt = true\n'
    lte = '[wan.lte]\ninterface = "lte"\nuse = "overflow"\n'
    with (
        far_server(house) as server,
        house.daemon(f'{dsl}{lte}[probe]\ntarget = "{SERVER_4}:{PORT}"\n'),
        house.transfer(server) as transfer,
    ):
        house.has_subflows(*BOTH)
        before = house.received("dsl")
        eventually(lambda: house.received("dsl") >= before + 8_000_000)
        assert "backup" in house.endpoints()[LTE] and house.received("lte") < 100_000
        house.on_provider("tc qdisc add dev isp-dsl root tbf rate 6mbit burst 3028 limit 1000000")
        eventually(lambda: "backup" not in house.endpoints()[LTE])
        assert house.status()["dsl"]["shaper"]["download"] < 16_000_000
        assert transfer.goes_on()
