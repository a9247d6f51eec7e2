"""A link that is used when the other one is full, until its monthly cap is used up, with the real kernel."""

from pathlib import Path

import pytest

from tests.netns.router_world import World, world
from tests.netns.world import eventually, run

pytestmark = pytest.mark.slow

DSL, LTE = "10.1.0.2", "10.2.0.2"
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


def test_an_overflow_link_is_used_when_the_other_is_full_and_off_when_its_cap_is_used_up(tmp_path: Path) -> None:
    with world(tmp_path) as house:
        house.on(house.provider, "tc qdisc add dev isp-dsl root tbf rate 20mbit burst 15140b limit 150000b")
        with house.daemon(SETTINGS), house.transfer() as one:
            idle(house)
            with house.transfer(), house.transfer():
                in_use(house)
                off(house)
                assert one.goes_on()
        with house.daemon(SETTINGS):
            assert house.status()["lte"]["reason"].startswith("monthly cap of 12MB used up"), (
                "it is kept over a restart"
            )
            run(*house.command("usage", "lte", "--set", "1MB"))
            eventually(lambda: LTE in house.endpoints())
            assert "unreachable" not in house.on_router("ip route")


def idle(house: World) -> None:
    """13 of 20 Mbit/s come by the other one; the session has its subflow here all the same."""
    eventually(lambda: house.subflows() == [DSL, LTE])
    before = house.received("dsl")
    eventually(lambda: house.received("dsl") >= before + 3 * MB)
    assert "backup" in house.endpoints()[LTE]
    assert house.received("lte") < MB // 10


def in_use(house: World) -> None:
    """39 Mbit/s are asked for. The subflows that wait are used, and no other ones are made."""
    eventually(lambda: house.subflows() == 3 * [DSL] + 3 * [LTE])
    number = house.endpoints()[LTE]["id"]
    eventually(lambda: "backup" not in house.endpoints()[LTE], 20)
    eventually(lambda: house.received("lte") > MB, 20)
    assert house.endpoints()[LTE]["id"] == number and house.subflows() == 3 * [DSL] + 3 * [LTE]


def off(house: World) -> None:
    eventually(lambda: LTE not in {*house.endpoints(), *house.rules()}, 20)
    assert house.received("lte") < 2 * CAP
    eventually(lambda: house.subflows() == 3 * [DSL])
    assert "unreachable default proto 84 metric 9" in " ".join(house.on_router("ip route").split())
    assert "unreachable default dev lo proto 84 metric 9" in house.on_router("ip -6 route")
