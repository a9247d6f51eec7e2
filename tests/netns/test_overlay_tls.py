import shutil
import time
from pathlib import Path

import pytest

from overlay.authority import enrol
from tests.netns.overlay_members import Secure
from tests.netns.overlay_world import Overlay
from tests.netns.world import needs
from tributary.settings.errors import Exit

pytestmark = needs("etcd")


@pytest.fixture
def secure(empty: Overlay, tmp_path: Path) -> Secure:
    """An etcd that asks for certificates of the authority in ``tmp_path / "a"``."""
    secure = Secure(empty, tmp_path / "a", members=1)
    secure.start()
    return secure


def test_others_are_refused_with_one_line(secure: Secure, tmp_path: Path) -> None:
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
