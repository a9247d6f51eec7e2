import json
import shutil
import time
from pathlib import Path

import pytest

from overlay.authority import enrol
from tests.netns.overlay_members import Secure
from tests.netns.overlay_world import PREFIX, Overlay, until
from tests.netns.world import needs
from tributary.settings.errors import Exit

pytestmark = needs("etcd", "etcdctl")


@pytest.fixture
def secure(empty: Overlay, tmp_path: Path) -> Secure:
    """Nodes n1 and n2, controllers c1 and c2, a reader r1, all authorized; n9 has a certificate and no more."""
    secure = Secure(empty, tmp_path / "a", members=3)
    secure.start()
    secure.enrol("n1", "n2", "c1", "c2", "r1", "n9")
    for words in (["c1", "c2", "--as", "controller"], ["n1", "n2"], ["r1", "--as", "reader"]):
        code, output = secure.asked("root", "authorize", *words)
        assert code == 0, output
    return secure


@pytest.fixture
def standing(secure: Secure) -> Secure:
    """All of them run, c1 is elected, both tables are there."""
    secure.controller("c1")
    controlled_by(secure, "c1")
    secure.controller("c2")
    secure.agent("n1", 11)
    secure.agent("n2", 12)
    has_egresses(secure, n1=1, n2=1)
    until(lambda: secure.status("r1").get("waiting") == ["c2"])
    return secure


def controlled_by(secure: Secure, name: str) -> None:
    """Waits for it."""
    until(lambda: secure.status("r1").get("controller") == name)


def has_egresses(secure: Secure, **numbers: int) -> float:
    """Waits until each ingress has chains to so many nodes; returns the seconds that it took."""
    return until(lambda: secure.egresses("r1") == numbers)


def created(secure: Secure, key: str) -> int:
    """At which revision a key of the overlay was made; 0 if it is not there."""
    code, output = secure.etcdctl("r1", ["get", PREFIX + key, "--write-out=json"])
    assert code == 0, output
    return sum(found["create_revision"] for found in json.loads(output).get("kvs", []))


OWN = ("nodes/n1", "delays/n1", "servers/n1", "health/n1", "egresses/n1", "routes/n1")
OTHERS = ("nodes/n2", "delays/n2", "servers/n2", "nodes/n10", "tables/n1", "report", "controller/n1", "elsewhere")


@pytest.mark.smoke
def test_each_writes_its_own_keys_alone(secure: Secure) -> None:
    def may_write(name: str, key: str) -> bool:
        code, output = secure.etcdctl(name, ["put", PREFIX + key, "x"])
        assert code == 0 or "permission denied" in output, output
        return code == 0

    for name, own, others in (
        ("n1", OWN, OTHERS),
        ("c1", ("tables/n1", "report", "controller/c1"), ("nodes/n1", "controller/c2", "elsewhere")),
        *((name, (), (f"nodes/{name}", "tables/n1")) for name in ("r1", "n9", "m1")),
    ):
        assert [key for key in (*own, *others) if may_write(name, key)] == [*own], name
    # Nor remove, read elsewhere, or change users.
    for words in (["del", f"{PREFIX}nodes/n2"], ["get", "elsewhere"], ["user", "add", "n3", "--no-password"]):
        code, output = secure.etcdctl("n1", words)
        assert code != 0 and "permission denied" in output, output
    # etcd's JSON gateway asks with the certificate of the member, who is nobody.
    root = secure.authority / "root"
    gateway = ["curl", "--silent", "--fail", "--cacert", root / "ca.pem", "--cert", root / "node.pem"]
    asked = [*gateway, "--key", root / "node.key", f"{secure.endpoints.split(',')[0]}/v3/kv/range", "--data", "{}"]
    assert secure.overlay.start("curl", [*map(str, asked)]).popen.wait(30) != 0


def test_who_is_not_authorized_is_told_so_in_one_line_as_are_all_others(secure: Secure, tmp_path: Path) -> None:
    code, output = secure.asked("n9", "status")
    assert code == Exit.NO_PERMISSION
    identity = secure.authority / "n9"
    denied = "etcd: permission denied: accepted: a name that `scripts/overlay authorize` allows this\n"
    assert output == f"tributary-overlay: {secure.endpoints}, asked with {identity}: {denied}"
    agent = secure.agent("n9", 19)
    until(lambda: f"{identity}: {denied.strip()}; trying again" in agent.output())
    # As a node it may not be a controller.
    controller = secure.controller("n1")
    until(lambda: "permission denied" in controller.output())
    stranger = enrol(tmp_path / "b", "n1", 1)
    mixed = enrol(tmp_path / "b", "n2", 1)
    shutil.copy(tmp_path / "a/ca.pem", mixed / "ca.pem")
    expired = enrol(tmp_path / "a", "n3", 0.00001)
    time.sleep(1)
    refused = "etcd hangs up on us: accepted: a valid certificate of its authority: `scripts/overlay enrol` makes it"
    for identity, why in ((stranger, "etcd: invalid peer certificate: "), (mixed, refused), (expired, refused)):
        code, output = secure.asked("stranger", "status", identity=identity)
        assert code == Exit.NO_PERMISSION, output
        assert output.startswith(f"tributary-overlay: {secure.endpoints}, asked with {identity}: {why}")
        assert "accepted: " in output and output.count("\n") == 1
    mixed.joinpath("node.key").chmod(0o644)
    code, output = secure.asked("stranger", "status", identity=mixed)
    assert code == Exit.NO_PERMISSION and "accepted: mode 0600" in output


def test_users_are_made_once_and_a_part_is_not_changed_by_the_way(secure: Secure) -> None:
    assert secure.changed("authorize", "n1", "n2") == (0, "nothing to change\n")
    code, output = secure.changed("authorize", "n1", "--as", "controller")
    assert code == Exit.IN_USE and "first `scripts/overlay revoke n1`" in output
    code, output = secure.changed("authorize", "n9", "--dry-run", "--json")
    answer = json.loads(output)
    assert code == 0 and answer["dry_run"] and "add the user n9" in answer["changes"]
    assert secure.asked("n9", "status")[0] == Exit.NO_PERMISSION
    code, output = secure.changed("revoke", "n9")
    assert code == Exit.USAGE and "etcd has no user n9: accepted: a name that was authorized" in output
    assert secure.changed("revoke", "n1", "--dry-run")[0] == 0
    assert secure.asked("n1", "status")[0] == 0


def test_a_node_that_is_revoked_is_out_while_its_agent_runs_and_back_when_authorized(standing: Secure) -> None:
    code, output = standing.changed("revoke", "n2")
    assert (code, output) == (0, "delete the user n2\ndelete all keys of n2\ndelete the role n2\n")
    seconds = has_egresses(standing, n1=0)
    print(f"n2 was out of all tables after {seconds:.2f} s")
    assert seconds < 5
    agent = standing.overlay.processes["n2"]
    until(lambda: "etcd: permission denied: accepted: " in agent.output())
    assert agent.popen.poll() is None and created(standing, "nodes/n2") == 0
    assert standing.changed("authorize", "n2")[0] == 0
    has_egresses(standing, n1=1, n2=1)


def test_a_controller_that_is_revoked_is_succeeded_while_it_runs(standing: Secure) -> None:
    assert standing.changed("revoke", "c1")[0] == 0
    controlled_by(standing, "c2")
    standing.overlay.processes["n2"].stop()
    has_egresses(standing, n1=0)
    assert standing.status("r1")["waiting"] == []


def test_all_go_on_without_one_member(standing: Secure) -> None:
    keys = ("nodes/n1", "nodes/n2", "controller/c1")
    before = [created(standing, key) for key in keys]
    assert all(before)
    standing.overlay.kill("m1")  # who asked it, asks another one from now on
    controlled_by(standing, "c1")
    standing.overlay.kill("n2")
    has_egresses(standing, n1=0)
    assert [created(standing, key) for key in keys] == [before[0], 0, before[2]]
    standing.overlay.kill("c1")
    controlled_by(standing, "c2")
    standing.agent("n2", 12)
    has_egresses(standing, n1=1, n2=1)
