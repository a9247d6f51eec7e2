import signal
import sys
from pathlib import Path

import pytest

from tests.netns.router_world import BOTH, DSL, LTE, World
from tests.netns.world import eventually, in_namespace, process

pytestmark = pytest.mark.slow

MB = 10**6
CAP = 12 * MB
SETTINGS = f"""
[wan.dsl]
interface = "dsl"
download = "20mbit"
upload = "20mbit"

[wan.lte]
interface = "lte"
use = "overflow"
monthly_cap = "{CAP // MB}MB"
"""


def test_an_overflow_link_is_used_when_the_other_is_full_and_off_when_its_cap_is_used_up(house: World) -> None:
    house.on_provider("tc qdisc add dev isp-dsl root tbf rate 20mbit burst 15140b limit 150000b")
    with house.daemon(SETTINGS), house.transfer() as one:
        idle(house)
        with house.transfer(), house.transfer():
            in_use(house)
            off(house)
            assert one.goes_on()
    with house.daemon(SETTINGS):
        assert house.status()["lte"]["reason"].startswith("monthly cap of 12MB used up"), "it is kept over a restart"
        house.tributary("link", "lte", "used=1MB")
        eventually(lambda: LTE in house.endpoints())
        assert "unreachable" not in house.on_router("ip route")


def test_a_link_is_a_backup_for_as_long_as_it_is_said_to_be(house: World) -> None:
    with house.daemon() as router, house.transfer():
        house.has_subflows(*BOTH)
        assert house.tributary("link", "lte", "use=backup", "--dry-run") == "# lte would have use = backup\n"
        assert is_backup(house) is False
        assert "set at run time: use" in house.tributary("link", "lte", "use=backup")
        eventually(lambda: is_backup(house))
        house.tributary("link", "lte", "use=settings")
        eventually(lambda: is_backup(house) is False)
        assert house.status()["lte"]["set"] == {}

        house.tributary("link", "lte", "download=5mbit", "upload=1mbit")
        assert house.status()["lte"]["shaper"]["download"] == 5_000_000
        house.tributary("link", "lte", "use=backup", "--save")
        house.tributary("link", "dsl", "use=overflow")
        router.send_signal(signal.SIGHUP)
        eventually(lambda: uses(house) == {"dsl": "primary", "lte": "backup"})
        house.tributary("link", "dsl", "use=overflow")
        house.tributary("link", "lte", "use=settings")
        assert uses(house) == {"dsl": "overflow", "lte": "primary"}
        assert not list(house.directory.glob("*.d/*"))
        # The endpoint was changed, not made anew.
        assert house.subflows() == [DSL, LTE]


def test_settings_on_trial_are_taken_back_by_the_daemon_itself(house: World, tmp_path: Path) -> None:
    with house.daemon():
        trial = tmp_path / "new.toml"
        trial.write_text(SETTINGS)
        words = ("try", str(trial), "--program", "router", "--for", "8s")
        assert house.tributary(*words, "--dry-run").startswith(f"# {trial} would replace ")
        with process(*in_namespace(house.router, sys.executable, "-m", "command", *words)) as trying:
            assert trying.line().startswith("on trial for 8s")
            assert house.status()["lte"]["use"] == "overflow"
            trying.kill()
        eventually(lambda: house.status()["lte"]["use"] == "primary")


def uses(house: World) -> dict[str, str]:
    return {name: link["use"] for name, link in house.status().items()}


def is_backup(house: World) -> bool:
    return "backup" in house.endpoints()[LTE]


def idle(house: World) -> None:
    """13 of 20 Mbit/s come by the other one; the session has its subflow here all the same."""
    house.has_subflows(*BOTH)
    before = house.received("dsl")
    eventually(lambda: house.received("dsl") >= before + 3 * MB)
    assert "backup" in house.endpoints()[LTE]
    assert house.received("lte") < MB // 10


def in_use(house: World) -> None:
    """39 Mbit/s are asked for. The subflows that wait are used, and no other ones are made."""
    house.has_subflows(*3 * BOTH)
    number = house.endpoints()[LTE]["id"]
    eventually(lambda: "backup" not in house.endpoints()[LTE])
    eventually(lambda: house.received("lte") > MB)
    assert house.endpoints()[LTE]["id"] == number and house.subflows() == 3 * [DSL] + 3 * [LTE]


def off(house: World) -> None:
    eventually(lambda: LTE not in {*house.endpoints(), *house.rules()})
    assert house.received("lte") < 2 * CAP
    house.has_subflows(*3 * [DSL])
    assert "unreachable default proto 84 metric 9" in " ".join(house.on_router("ip route").split())
    assert "unreachable default dev lo proto 84 metric 9" in house.on_router("ip -6 route")
