from pathlib import Path

import pytest

from experiments.study.blueprint import TestbedBlueprint
from experiments.testbed.links import delay_command, rate_commands
from experiments.testbed.profile import DEFAULT, PROFILES, add_profile_arguments, changed_profile
from experiments.testbed.topology import Profile, Topology
from tests.refusals import command_error
from tributary.settings.cli import Arguments
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import check, load


def read_profile(*changes: str, file: Path = DEFAULT) -> Profile:
    parser = Arguments()
    add_profile_arguments(parser)
    words = ["--profile", str(file), *(f"--set={change}" for change in changes)]
    given = parser.parse_args(words)
    return changed_profile(given.profile, given.changes)


@pytest.mark.parametrize("path", sorted(PROFILES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_profile_that_comes_with_the_project_is_valid(path: Path) -> None:
    assert Topology.of(load(path, Profile)).links


def test_the_default_links_are_those_of_the_paper() -> None:
    wired, wireless = Topology.of(load(DEFAULT, Profile)).links
    assert (wired.name, wired.down.rate.amount) == ("wired", 100_000_000)
    assert (wireless.name, wireless.up.rate.amount) == ("wireless", 20_000_000)
    assert (wired.rtt, wireless.rtt) == pytest.approx((0.010, 0.030))


def test_a_change_of_a_link_holds_for_both_directions_and_that_of_a_direction_for_one() -> None:
    wired, wireless = Topology.of(read_profile("wired.rate=50mbit", "wireless.up.loss=1%")).links
    assert wired.down.rate.amount == wired.up.rate.amount == 50_000_000
    assert (wireless.down.loss.fraction, wireless.up.loss.fraction) == (0, 0.01)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("wired.rate=50", "links.wired.rate = 50: accepted: a rate above zero with its unit"),
        ("wired.rate=0mbit", "links.wired.rate = '0mbit': accepted: a rate above zero"),
        ("wired.speed=1mbit", "links.wired.speed = '1mbit': accepted: one of the keys delay, down, jitter"),
        ("wired.down.up=1mbit", "links.wired.down.up = '1mbit': accepted: one of the keys delay, jitter"),
        ("wired.loss=101%", "links.wired.loss = '101%': accepted: a share from '0%' to '100%'"),
        ("wired.queue=0", "links.wired.queue = 0: accepted: a whole number of packets, at least 1"),
        ("wired.jitter=6ms", "accepted: a link whose jitter is at most its delay"),
        ("dsl.rate=1mbit", "--set: dsl.rate = '1mbit': accepted: one of the links wired, wireless"),
        ("wired=1mbit", "--set wired=1mbit: accepted: LINK.KEY=VALUE"),
    ],
)
def test_a_wrong_change_is_refused_with_the_key_the_value_and_what_is_accepted(change: str, message: str) -> None:
    with command_error(Exit.USAGE, message):
        read_profile(change)


@pytest.mark.parametrize("name", ["core", "lo", "a-name-of-sixteen", "Wired", "1st", ""])
def test_a_link_whose_name_cannot_be_an_interface_is_refused(name: str) -> None:
    with pytest.raises(CommandError, match="1 to 15 of a-z"):
        check({"links": {name: {"rate": "1mbit"}}}, Profile, "p.toml")


def test_any_number_of_links_get_addresses_of_their_own() -> None:
    links = Topology.of(check({"links": {f"l{n}": {"rate": "1mbit"} for n in range(250)}}, Profile, "p.toml")).links
    addresses = {str(a) for link in links for a in (link.client4, link.gateway4, link.client6, link.gateway6)}
    assert len(addresses) == 1000
    assert str(links[249].client4) == "10.0.250.2"


def test_the_path_of_an_address_is_the_link_that_has_it() -> None:
    topology = Topology.of(load(DEFAULT, Profile))
    assert topology.path_of("10.0.2.2") == topology.path_of("fd00:0:0:2::2") == "wireless"
    with pytest.raises(KeyError):
        topology.path_of("10.0.3.2")


def test_netem_gets_delay_and_loss_and_tbf_the_rate_of_full_frames() -> None:
    link = Topology.of(read_profile("wired.loss=0.5%", "wired.jitter=1ms")).links[0]
    assert delay_command("client", link.down) == (
        "qdisc replace dev client root handle 1: netem limit 100000 delay 5ms 1ms loss 0.5%"
    )
    assert rate_commands("client", link.down, 1500) == (
        "qdisc replace dev client parent 1:1 handle 2: tbf rate 100933333bit burst 12616 limit 151400",
        "qdisc replace dev client parent 2:1 handle 3: pfifo limit 100",
    )


def test_tbf_lets_the_largest_frame_through_that_the_links_take() -> None:
    link = Topology.of(read_profile("wired.rate=20mbit")).links[0]
    assert rate_commands("client", link.down, 9000)[0].endswith("tbf rate 20031111bit burst 18028 limit 901400")


@pytest.mark.parametrize(("count", "joining"), [(2, 1), (5, 4), (8, 4)])
def test_both_families_join_over_the_same_links(count: int, joining: int) -> None:
    """The kernel has eight endpoints: with more links than they are enough for, IPv6 loses none that IPv4 keeps."""
    links = {f"l{number}": {"rate": "10mbit"} for number in range(1, count + 1)}
    profile = check({"links": links}, Profile, "p")
    assert [link.name for link in Topology.of(profile).joining] == list(links)[1 : joining + 1]
    left_out = TestbedBlueprint(profile).as_json().get("without_endpoint", [])
    assert left_out == list(links)[joining + 1 :]
