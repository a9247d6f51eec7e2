"""The overlay's control plane over mutual TLS, on the real etcd: who has a certificate, who has not."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from overlay.authority import enrol
from tests.netns.overlay_world import Overlay, standing_overlay, until
from tributary.settings.failure import Exit

pytestmark = pytest.mark.skipif(shutil.which("etcd") is None, reason="missing: etcd (Debian's etcd-server)")

URL = "https://127.0.0.1:2379"
PEERS = "https://127.0.0.1:2380"


@pytest.fixture
def overlay(name: str, tmp_path: Path) -> Iterator[Overlay]:
    """An etcd that asks for certificates of the authority in ``tmp_path / "a"``."""
    member = enrol(tmp_path / "a", "m1", 1, ["127.0.0.1"])
    files = {"trusted-ca-file": "ca.pem", "cert-file": "node.pem", "key-file": "node.key"}
    options = [f"--{side}{key}={member / file}" for side in ("", "peer-") for key, file in files.items()]
    options += ["--client-cert-auth", "--peer-client-cert-auth", "--peer-cert-allowed-cn=etcd", "--logger=zap"]
    options += [f"--listen-client-urls={URL}", f"--advertise-client-urls={URL}", f"--listen-peer-urls={PEERS}"]
    options += [f"--initial-advertise-peer-urls={PEERS}", f"--initial-cluster=default={PEERS}"]
    with standing_overlay(name) as overlay:
        process = overlay.node.start("etcd", ["etcd", f"--data-dir={tmp_path / 'etcd'}", *options])
        overlay.stack.callback(process.stop, 2)
        until(lambda: asked(overlay, tmp_path / "a/root")[0] == 0)
        yield overlay


def asked(overlay: Overlay, identity: Path) -> tuple[int, str]:
    """How ``status`` ended with this identity, and what it said."""
    process = overlay.tributary("status", "status", "--endpoints", URL, "--identity", str(identity))
    return process.popen.wait(30), process.output()


def test_agents_and_a_controller_with_certificates(overlay: Overlay, tmp_path: Path) -> None:
    for number, node in enumerate(("n1", "n2"), start=11):
        identity = str(enrol(tmp_path / "a", node, 1, ()))
        overlay.agent(node, number, "--endpoints", URL, "--identity", identity)
    identity = str(enrol(tmp_path / "a", "c1", 1, ()))
    overlay.tributary("c1", "controller", "c1", "--endpoints", URL, "--identity", identity)

    def egresses() -> list[int]:
        code, told = asked(overlay, tmp_path / "a/n1")
        return [table["egresses"] for table in json.loads(told)["tables"]] if code == 0 else []

    until(lambda: egresses() == [1, 1])


def test_others_are_refused_with_one_line(overlay: Overlay, tmp_path: Path) -> None:
    stranger = enrol(tmp_path / "b", "n1", 1, ())
    mixed = enrol(tmp_path / "b", "n2", 1, ())
    shutil.copy(tmp_path / "a/ca.pem", mixed / "ca.pem")
    expired = enrol(tmp_path / "a", "n3", 0.00001, ())
    time.sleep(1)
    for identity in (stranger, mixed, expired):
        code, said = asked(overlay, identity)
        assert code == Exit.UNAVAILABLE
        assert said.startswith(f"tributary-overlay: {URL}: etcd: ") and said.count("\n") == 1
    mixed.joinpath("node.key").chmod(0o644)
    code, said = asked(overlay, mixed)
    assert code == Exit.NO_PERMISSION and "accepted: mode 0600" in said


def test_an_agent_that_is_refused_waits_and_says_so(overlay: Overlay, tmp_path: Path) -> None:
    identity = enrol(tmp_path / "b", "n1", 1, ())
    overlay.agent("n1", 11, "--endpoints", URL, "--identity", str(identity))
    until(lambda: "trying again" in overlay.processes["n1"].output())
    assert overlay.processes["n1"].popen.poll() is None
