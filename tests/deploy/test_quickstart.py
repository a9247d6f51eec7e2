"""scripts/gateway-quickstart on a Debian that was never a gateway: what the world finds of it, a router's way in."""

import re
import socket
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.debs.world import make
from tests.deploy.guest import NEEDED, OUTSIDE, SUITE, Guest, booted
from tests.netns.converter_names import looked_up
from tests.netns.gateway_world import House
from tests.netns.world import eventually
from tributary.paths import ROOT
from tributary.settings.files import check
from tributary.wireguard.enrolment import Enrolment

pytestmark = NEEDED

QUICKSTART = f"/root/tributary/scripts/gateway-quickstart --name {OUTSIDE} --packages /root/packages"
VARIABLES = """\
# The clock is this machine's, and nothing here sets it.
health_doctor_checks: [kernel, mptcp, settings, rp_filter, firewall, limits]
# A throttler from the first, by a policy that names an interface which is not there yet.
tributary_parts: [converter, gateway, throttler]
throttler_policy:
  paths: {tunnels: {interface: tributary}}
  rules: [{name: nothing-yet, path: tunnels}]
"""
INSIDE, CONVERTER = "10.84.0.1", 5124
TUNNELS = 51840
WITHIN = 900.0
"""Seconds that a run may take."""

# The well-known, and all that anything of Tributary listens at somewhere.
PORTS = (*range(1, 1025), *range(3120, 3140), *range(5120, 5130), 8080, 8443, *range(9090, 9110), *range(51830, 51850))


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    folder = tmp_path_factory.mktemp("quickstart")
    made = make(SUITE, folder)
    with booted(folder) as guest:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(guest.root / "root/tributary")], check=True)
        (guest.root / "root/packages").mkdir()
        for path in made.now:
            path.rename(guest.root / "root/packages" / path.name)
        variables = guest.root / "root/tributary/ansible/inventory/host_vars/gw1.example.net.yml"
        variables.parent.mkdir()
        variables.write_text(VARIABLES)
        yield guest


@pytest.fixture(scope="module")
def ready(guest: Guest) -> str:
    """What it said; the tests that follow need what it made."""
    return guest.ask(f"{QUICKSTART} 2>&1", WITHIN)


def test_it_makes_a_gateway_that_is_ready_to_enrol(guest: Guest, ready: str) -> None:
    assert ready.endswith("ready: now 'tributary enrol NAME'"), ready
    units = "tributary-converter tributary-gateway tributary-firewall tributary-throttler"
    assert set(guest.ask(f"systemctl is-active {units}").split()) == {"active"}
    assert guest.ask("systemctl is-system-running") == "running"


def test_the_world_finds_ssh_and_nothing_else(guest: Guest, ready: str) -> None:
    assert [port for port in PORTS if answers(guest, port)] == [22], ready
    with guest.server.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.settimeout(1)
        stranger.sendto(bytes([1]) + bytes(147), (OUTSIDE, TUNNELS))  # as long as a handshake
        with pytest.raises(TimeoutError):
            stranger.recv(1)


def answers(guest: Guest, port: int) -> bool:
    """Whether a stranger is let in or as much as refused there."""
    with guest.server.entered(), socket.socket() as stranger:
        stranger.settimeout(0.05)
        with suppress(TimeoutError):
            return stranger.connect_ex((OUTSIDE, port)) != 11
    return False


def test_who_was_enrolled_reaches_the_converter(guest: Guest, ready: str) -> None:
    printed = tomllib.loads(guest.ask("tributary enrol home"))
    enrolment = check(printed["enrolment"][0], Enrolment, "home")
    assert str(enrolment.gateway) == f"{OUTSIDE}:{TUNNELS}", ready
    house = House(guest.server)
    try:
        address = house.tunnel(enrolment)
        assert house.reaches(address, INSIDE, CONVERTER, 10)
        assert not house.reaches(address, INSIDE, 22)
        # What dnsmasq asks nobody for (--domain-needed): that there is no such name is an answer.
        assert eventually(lambda: looked_up(guest.server, "nobody", INSIDE, address) == [])
    finally:
        house.remove_tunnels()


def test_the_throttler_comes_and_goes_with_the_tunnels(guest: Guest, ready: str) -> None:
    first = throttler(guest)
    assert first, ready
    guest.ask("systemctl restart tributary-gateway")
    second = eventually(lambda: throttler(guest) not in ("", first) and throttler(guest))
    guest.ask("systemctl stop tributary-gateway")
    assert not throttler(guest)
    guest.ask("systemctl start tributary-gateway")
    assert eventually(lambda: throttler(guest)) != second


def test_a_reload_takes_up_that_names_are_looked_up(guest: Guest, ready: str) -> None:
    settings, asked = "/etc/tributary/gateway.toml", "systemctl is-active tributary-gateway-dns || true"
    guest.ask(f"echo 'dns = false' >> {settings} && systemctl restart tributary-gateway")
    eventually(lambda: guest.ask(asked) == "inactive")
    first = guest.ask("systemctl show --property=InvocationID --value tributary-gateway")
    guest.ask(f"sed -i '/^dns = /d' {settings} && systemctl reload tributary-gateway")
    assert eventually(lambda: guest.ask(asked) == "active"), ready
    assert guest.ask("systemctl show --property=InvocationID --value tributary-gateway") == first


def throttler(guest: Guest) -> str:
    """Which start of it answers, with the tunnels as its path; empty: none does."""
    asked = "tributary status throttler"
    return guest.ask(f"{asked} | grep -q tunnels && systemctl show --property=InvocationID --value tributary-throttler")


def test_the_second_run_changes_nothing(guest: Guest, ready: str) -> None:
    again = guest.ask(f"{QUICKSTART} 2>&1", WITHIN)
    assert "failed=0" in ready
    assert re.search(r"\bchanged=0 .*\bfailed=0\b", again), again


@pytest.mark.usefixtures("ready")
def test_a_later_run_takes_up_what_you_have_set(guest: Guest) -> None:
    settings, prefix = "/etc/tributary/gateway-quickstart.yml", "fd12:3456:789a::/48"
    guest.ask(f"echo '      lan_prefix: \"{prefix}\"' >> {settings}")
    guest.ask(f"sed -i 's|tributary_admin_networks: .*|tributary_admin_networks: [10.77.0.0/24]|' {settings}")
    again = guest.ask(f"{QUICKSTART} 2>&1", WITHIN)
    assert f'lan_prefix = "{prefix}"' in guest.ask("cat /etc/tributary/gateway.toml"), again
    assert not answers(guest, 22), again
