"""All packages installed into each release: what is there works, and is what dpkg says it is."""

import gzip
import json
import re
from pathlib import Path

import pytest

from debs.release import SUITES
from tests.debs.chroot import Chroot
from tests.debs.world import NAMES, SERVICES, Made

HANDOFF = ("tributary-switch", "tributary-backend")
OVERLAY = "tributary-overlay"
TUNNELS = ("tributary-router", "tributary-gateway")
IMAGE = ("tributary-firstboot", "tributary-first-start", "tributary-upgrade")


def test_the_converter_runs_and_tells_its_version(installed: Chroot, made: Made) -> None:
    assert installed.run("tributary-converter", "--version").stdout == f"tributary-converter {made.release.base}\n"


@pytest.mark.parametrize("program", (*HANDOFF, OVERLAY))
def test_programs_that_need_arguments_run_and_do_nothing_without(installed: Chroot, program: str) -> None:
    assert installed.run(program, "--version").stdout.startswith(f"{program} ")
    assert installed.run(program, check=False).returncode == 64


def test_the_converter_takes_its_configuration(installed: Chroot) -> None:
    installed.run("tributary-converter", "--check", "--config", "/etc/tributary/converter.toml")


def test_the_throttler_tells_of_itself_and_takes_its_policy(installed: Chroot) -> None:
    assert "Limits the rate of chosen subflows" in installed.run("tributary-throttler", "--help").stdout
    assert "throttles nothing" in installed.run("tributary-throttler", "plan", "/etc/tributary/throttler.toml").stdout


def test_the_throttler_finds_all_that_its_daemon_imports(installed: Chroot) -> None:
    program = "import sys; sys.path.insert(0, '/usr/lib/tributary/python'); import throttler.service.start"
    installed.run("python3", "-ISB", "-c", program)


def test_squid_takes_the_configuration_made_from_its_settings(installed: Chroot) -> None:
    assert installed.run("tributary-squid", "check", "/etc/tributary/squid.toml").stdout == "valid\n"


def test_the_other_commands_tell_of_themselves_and_take_their_settings(installed: Chroot) -> None:
    assert "Examines this machine" in installed.run("tributary-doctor", "--help").stdout
    assert installed.run("tributary-router", "check", "/etc/tributary/router.toml").stdout == "valid\n"
    assert installed.run("tributary-gateway", "check").stdout == "valid\n"
    card = "/usr/share/doc/tributary-image/examples/tributary.toml"
    assert installed.run("tributary-firstboot", "--check", card).stdout == "valid, for a gateway\n"
    assert "Serve the first-start page" in installed.run("tributary-first-start", "--help").stdout
    reader = installed.run("/usr/lib/tributary/overlay-reader", "--help").stdout
    assert "Reads the overlay every three seconds" in reader
    program = "import sys; sys.path.insert(0, '/usr/lib/tributary/python'); import router.daemon"
    installed.run("python3", "-ISB", "-c", program)


def test_wrong_settings_are_refused_by_the_installed_commands(installed: Chroot) -> None:
    (installed.root / "tmp/wrong.toml").write_text("colour = 1\n")
    refused = installed.run("tributary-squid", "check", "/tmp/wrong.toml", check=False)
    assert (refused.returncode, refused.stderr.count("\n")) == (64, 1)


def test_what_fixes_on_request_answers_a_wrong_word_at_its_socket(installed: Chroot) -> None:
    program = """\
import socket, subprocess
own, other = socket.socketpair()
own.sendall(b"routing\\n")
subprocess.run(["/usr/lib/tributary/doctor-fix"], stdin=other, check=True)
print(own.recv(65536).decode())
"""
    answer = json.loads(installed.run("python3", "-ISB", "-c", program).stdout)
    assert answer["code"] == 64 and "accepted for a gateway: mptcp, settings" in answer["failure"]


def test_every_manual_page_is_found(installed: Chroot) -> None:
    for section, name in (
        *((8, name) for name in (*SERVICES, *HANDOFF, OVERLAY, *TUNNELS, "tributary-doctor", *IMAGE)),
        *((5, f"{name}.toml") for name in ("tributary-converter", "tributary-throttler")),
    ):
        shown = installed.run("man", "--where", str(section), name).stdout.strip()
        assert shown.endswith(f"/{name}.{section}.gz")


def test_dpkg_finds_every_file_as_it_was_packed(installed: Chroot) -> None:
    assert installed.run("dpkg", "--verify", *NAMES).stdout == ""


def test_the_changelog_has_the_version(installed: Chroot, made: Made, suite: str) -> None:
    for name in NAMES:
        text = gzip.decompress((installed.root / f"usr/share/doc/{name}/changelog.Debian.gz").read_bytes()).decode()
        assert text.startswith(f"tributary ({made.release.version}) {suite};")


def test_modules_are_compiled_and_no_other_python_is_meant(installed: Chroot, suite: str) -> None:
    major, minor = SUITES[suite].python
    for module in ("tributary/settings/cli", "throttler/cli", "squid/render", "pydantic/main"):
        path = installed.root / f"usr/lib/tributary/python/{module}.py"
        assert [each.name for each in (path.parent / "__pycache__").glob(f"{path.stem}.*")] == [
            f"{path.stem}.cpython-{major}{minor}.pyc"
        ]


def test_the_services_are_enabled_and_what_needs_settings_first_is_not(installed: Chroot) -> None:
    wants = installed.root / "etc/systemd/system/multi-user.target.wants"
    for name in (*SERVICES, "tributary-firstboot", "tributary-firstboot-report", "tributary-upgrade-confirm"):
        assert (wants / f"{name}.service").is_symlink()
    for name in (*HANDOFF, OVERLAY, *TUNNELS, "tributary-lan", "tributary-first-start"):
        assert not (wants / f"{name}.service").is_symlink()
    sockets = installed.root / "etc/systemd/system/sockets.target.wants"
    assert not (sockets / "tributary-converter.socket").exists()
    assert (sockets / "tributary-doctor-fix.socket").is_symlink()


def test_this_releases_systemd_accepts_every_line_of_the_units(installed: Chroot) -> None:
    units = [str(path) for path in sorted(Path(installed.root, "usr/lib/systemd/system").glob("tributary-*"))]
    names = [f"/{Path(unit).relative_to(installed.root)}" for unit in units]
    said = installed.run("systemd-analyze", "verify", "--man=no", *names, check=False).stderr
    assert [line for line in said.splitlines() if "tributary" in line] == []


def test_this_releases_systemd_finds_the_exposure_below_three(installed: Chroot) -> None:
    for name in (*SERVICES, *HANDOFF, OVERLAY, *TUNNELS, "tributary-gateway-sync"):
        unit = f"/usr/lib/systemd/system/{name}.service"
        shown = installed.run("systemd-analyze", "--no-pager", "security", "--offline=true", unit).stdout
        found = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", shown)
        assert found is not None
        assert float(found[1]) < 3
