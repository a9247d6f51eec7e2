"""ansible/gateway.yml over SSH, on a Debian that was never a gateway: deployed, upgraded, refused, rolled back."""

import hashlib
import json
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.ansible.playbooks import environment_in, program
from tests.debs.world import Made, make
from tests.deploy.guest import ADMIN, GUEST, NEEDED, SERVER, SUITE, Guest, booted
from tests.netns.connections import MPTCP
from tests.netns.world import connected, eventually
from tributary.paths import ROOT

pytestmark = NEEDED

CONVERTER = 3129
PIECE = hashlib.sha256(b"tributary").digest() * 512
# The clock is this machine's, and nothing here sets it.
LOOKS = ["kernel", "mptcp", "settings", "rp_filter", "listeners", "firewall", "limits"]
PATHS = {"paths": {"lan": {"interface": "lan"}}}
KEPT = "sha256sum /etc/tributary/* /etc/nftables.d/* /etc/sysctl.d/*; dpkg-query --show 'tributary-*'"


@dataclass(frozen=True)
class Run:
    """How a run of the playbook ended."""

    said: str
    code: int

    def count(self, what: str) -> int:
        """One of the figures that Ansible ends with, as ``changed``."""
        found = re.search(rf"^gw .*\b{what}=(\d+)", self.said, re.MULTILINE)
        assert found is not None, self.said
        return int(found[1])


@dataclass(frozen=True)
class Site:
    """The guest, its inventory, and packages of two versions."""

    guest: Guest
    made: Made
    folder: Path
    settings: dict[str, object] = field(default_factory=dict)

    @property
    def versions(self) -> tuple[str, ...]:
        """Now, and a day later; as the inventory has them."""
        return tuple(each.version.rpartition("~")[0] for each in (self.made.release, self.made.newer))

    def play(self, *options: str, **variables: object) -> Run:
        """Run the playbook at the administrator's."""
        inventory = self.folder / "inventory.json"
        inventory.write_text(json.dumps(self._inventory()))
        given = ["--extra-vars", json.dumps(variables)]
        command = [*self.guest.as_admin, program(), "-i", str(inventory), *given, *options]
        done = subprocess.run(
            [*command, str(ROOT / "ansible/gateway.yml")],
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
            cwd=self.folder,
            env=environment_in(self.folder),
        )
        print(done.stdout, done.stderr)
        return Run(done.stdout + done.stderr, done.returncode)

    def _inventory(self) -> dict[str, object]:
        host = {
            "ansible_host": GUEST,
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.guest.key),
            "ansible_ssh_common_args": " ".join(self.guest.ssh_options),
        }
        variables = {
            "tributary_packages": str(self.folder / "packages"),
            "tributary_client_networks": ["10.0.0.0/8"],
            "tributary_admin_networks": [f"{ADMIN}/32"],
            "health_doctor_checks": LOOKS,
        }
        return {"all": {"children": {"gateways": {"hosts": {"gw": host}, "vars": variables}}}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("deploy")
    made = make(SUITE, folder)
    (folder / "packages").mkdir()
    for path in (*made.now, *made.later):
        path.rename(folder / "packages" / path.name)
    with booted(folder) as guest:
        yield Site(guest, made, folder)


@pytest.fixture(scope="module")
def deployed(site: Site) -> Run:
    """The first run; the tests that follow need its result."""
    return site.play(tributary_version=site.versions[0])


def test_a_run_that_only_looks_changes_nothing(site: Site) -> None:
    before = site.guest.ask("dpkg-query --show; nft list ruleset; find /etc -newer /root/.ssh -type f")
    run = site.play("--check", tributary_version=site.versions[0])
    assert run.code == 0
    assert run.count("changed") > 5
    assert site.guest.ask("dpkg-query --show; nft list ruleset; find /etc -newer /root/.ssh -type f") == before


def test_the_first_run_makes_a_gateway_that_serves(site: Site, deployed: Run) -> None:
    assert deployed.code == 0
    with download(site.guest) as fetched:
        fetched.end()
    assert fetched.whole()
    units = "tributary-converter tributary-squid tributary-throttler tributary-firewall prometheus-node-exporter"
    assert set(site.guest.ask(f"systemctl is-active {units}").split()) == {"active"}
    assert site.guest.ask("systemctl is-system-running") == "running"


def test_the_firewall_lets_ssh_in_from_the_administrator_alone(site: Site, deployed: Run) -> None:
    assert deployed.code == 0
    with site.guest.server.entered(), socket.socket() as stranger:
        stranger.settimeout(3)
        with pytest.raises(TimeoutError):
            stranger.connect(("203.0.113.1", 22))


def test_the_second_run_changes_nothing(site: Site, deployed: Run) -> None:
    """Nor does it need a mirror."""
    assert deployed.code == 0
    source = "/etc/apt/sources.list.d/away.list"
    site.guest.ask(f"echo 'deb http://{SERVER}/debian {SUITE} main' > {source}; rm -r /var/lib/apt/lists/*")
    again = site.play(tributary_version=site.versions[0])
    site.guest.ask(f"rm {source}")
    assert (again.code, again.count("changed")) == (0, 0)


def test_the_firewall_stands_after_each_start_of_nftables(site: Site, deployed: Run) -> None:
    assert deployed.code == 0
    for command in ("start", "restart", "stop nftables; systemctl start"):
        site.guest.ask(f"systemctl {command} nftables")
        eventually(lambda: "policy drop" in site.guest.ask("nft list chain inet tributary-firewall input"))
    eventually(lambda: site.guest.ask("systemctl is-active tributary-firewall nftables").split() == ["active"] * 2)
    site.guest.ask("systemctl stop nftables; systemctl start tributary-firewall; systemctl restart tributary-squid")


def test_rules_that_need_tracked_connections_are_not_made_blind(site: Site, deployed: Run) -> None:
    assert deployed.code == 0
    chain = "chain input { type filter hook input priority 0; policy accept; ct state established accept; }"
    site.guest.ask(f"nft 'table inet mine {{ {chain}; }}'")
    run = site.play(tributary_version=site.versions[0])
    site.guest.ask("nft delete table inet mine")
    assert (run.code != 0, run.count("changed")) == (True, 0)
    assert "nothing was changed | gw: Refuse to hide connections" in run.said
    assert "inet mine: rules there depend on the tracking of TCP" in run.said


def test_rules_that_were_written_and_not_loaded_are_loaded_by_the_next_run(site: Site, deployed: Run) -> None:
    assert deployed.code == 0
    site.guest.ask("echo >> /etc/nftables.d/tributary-site.nft")
    for loads in (True, False):
        run = site.play(tributary_version=site.versions[0])
        assert (run.code, run.count("changed") > 0) == (0, loads), run.said


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"converter_settings": {"limits": {"connections": "many"}}}, "limits.connections"),
        ({"throttler_policy": {**PATHS, "rules": [{"name": "slow", "rate": "5"}]}}, "rules[0].rate"),
        ({"squid_settings": {"cache": "big"}}, "cache"),
        ({"tributary_admin_networks": ["192.0.2.0/24"]}, "which is not in tributary_admin_networks"),
    ],
    ids=["converter", "throttler", "squid", "firewall"],
)
def test_a_wrong_setting_stops_the_run_before_anything_is_changed(
    site: Site, deployed: Run, wrong: dict[str, object], said: str
) -> None:
    assert deployed.code == 0
    before = site.guest.ask(KEPT)
    run = site.play(tributary_version=site.versions[0], **wrong)
    assert run.code != 0
    assert run.count("changed") == 0
    assert "nothing was changed" in run.said
    assert said in run.said
    assert site.guest.ask(KEPT) == before


@pytest.mark.parametrize("to", [1, 0], ids=["newer", "back"])
def test_another_version_keeps_a_running_download_to_its_end(site: Site, deployed: Run, to: int) -> None:
    assert deployed.code == 0
    with download(site.guest) as fetched:
        run = site.play(tributary_version=site.versions[to])
        assert run.code == 0
        assert site.versions[to] in site.guest.ask("dpkg-query --show tributary-converter")
        fetched.end()
    assert fetched.whole()
    # Whoever comes now is served by the new program.
    with download(site.guest) as another:
        another.end()
    assert another.whole()


class Download:
    """A response that goes on until it is told to end, fetched by MPTCP through the guest's native converter."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client, self._server = client, server
        self._ending = threading.Event()
        self._sent = self._got = 0
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._serve, self._fetch)]

    def start(self) -> None:
        """From here on pieces come."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """The server says its last; the client reads to the end."""
        self._ending.set()
        for thread in self._threads:
            thread.join(30)

    def whole(self) -> bool:
        """Whether every byte came, and more than one."""
        return self._sent > 1 and self._got == self._sent * len(PIECE)

    def _serve(self) -> None:
        with self._server.accept()[0] as connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
            while self._sent < 2 or not self._ending.wait(0.2):
                connection.sendall(PIECE)
                self._sent += 1

    def _fetch(self) -> None:
        self._client.sendall(f"GET http://{SERVER}:8080/ HTTP/1.1\r\nHost: {SERVER}\r\n\r\n".encode())
        with self._client.makefile("rb") as answer:
            status = answer.readline()
            while answer.readline().strip():
                pass
            while piece := answer.read(len(PIECE)):
                assert piece == PIECE
                self._got += len(piece)
        assert b"200" in status


@contextmanager
def download(guest: Guest) -> Iterator[Download]:
    with guest.server.entered():
        server = socket.create_server((SERVER, 8080))
    with server, connected(guest.admin, GUEST, CONVERTER, seconds=30, protocol=MPTCP) as client:
        running = Download(client, server)
        running.start()
        yield running
