"""scripts/test and scripts/demo from a fresh clone, on a bare Debian with mounts and processes of its own and this
machine's kernel and network. They install all they need.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from image.debian import INSIDE, base, here, unpacked
from tests.netns.world import needs, needs_root
from tributary.paths import CACHE, ROOT

pytestmark = [needs_root, needs("git", "mmdebstrap", "unshare"), pytest.mark.timeout(3600)]

CLONE = "root/tributary"
CERTIFICATES = "usr/local/share/ca-certificates"
TRUSTED = "/etc/ssl/certs/ca-certificates.crt"
ENVIRONMENT = {**INSIDE, **dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT", "CARGO_HTTP_CAINFO"), TRUSTED), "TERM": "dumb"}
# ip(8) changes how its root's mounts propagate: it must be one.
MOUNTS = """
mount --bind "$0" "$0"
for folder in dev sys; do mount --rbind "/$folder" "$0/$folder"; done
mount -t proc proc "$0/proc"
mount -t tmpfs tmpfs "$0/run"
mount -t tmpfs -o mode=1777 tmpfs "$0/tmp"
exec chroot "$0" "$@"
"""


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def bare(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Its root, with a clone and what this machine trusts."""
    debian = base(CACHE, request.param, here(), ["ca-certificates", "git"])
    with unpacked(debian, tmp_path_factory.mktemp("bare")) as system:
        subprocess.run(["git", "clone", "--quiet", ROOT, system.root / CLONE], check=True)
        shutil.copytree(Path("/", CERTIFICATES), system.root / CERTIFICATES, dirs_exist_ok=True)
        shutil.copy("/etc/resolv.conf", system.root / "etc")
        inside(system.root, "update-ca-certificates")
        yield system.root


def inside(root: Path, *command: str) -> None:
    namespaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
    subprocess.run([*namespaces, "sh", "-ec", MOUNTS, root, *command], env=ENVIRONMENT, check=True)


@pytest.mark.parametrize("command", ["test", "demo"])
def test_a_command_installs_what_it_needs(bare: Path, command: str) -> None:
    inside(bare, f"/{CLONE}/scripts/{command}")
