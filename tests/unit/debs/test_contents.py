"""What lies in which package."""

import re
from pathlib import PurePosixPath

import pytest

from debs import archive, content, parts, render
from debs.package import PYTHON, File, Package
from squid import targets
from tests.unit.debs.sample import imported, inputs, release
from tributary.paths import ROOT
from tributary.settings.errors import CommandError

TRIXIE = inputs(release())
PACKAGES = {package.name: package for package in parts.packages(TRIXIE)}
FILES = {name: {file.path for file in package.files} for name, package in PACKAGES.items()}


def test_each_module_is_in_one_package_and_no_file_in_two() -> None:
    paths = [path for paths in FILES.values() for path in paths]
    assert len(paths) == len(set(paths))
    ours = {(name, path) for name, paths in FILES.items() for path in paths if path.startswith(PYTHON)}
    modules = {name for name, path in ours if path.endswith((".py", ".so"))}
    assert modules == {"tributary-common"}


def test_among_the_modules_are_no_golden_texts_tests_and_units_and_their_list_of_targets_is_found() -> None:
    modules = [PurePosixPath(path) for paths in FILES.values() for path in paths if path.startswith(PYTHON)]
    assert not any({"golden", "systemd", "__pycache__"} & set(path.parts) for path in modules)
    assert f"{PYTHON}/squid/squid.conf.j2" in FILES["tributary-common"]
    assert f"{PYTHON}/throttler/service/daemon.py" in FILES["tributary-common"]
    reader, place = PurePosixPath(f"{PYTHON}/squid/targets.py"), targets.LIST.relative_to(ROOT)
    assert str(reader.parents[1] / place) in FILES["tributary-common"]


@pytest.mark.parametrize("part", parts.MODULES)
def test_each_part_is_packed_and_imports_none_that_is_not(part: str) -> None:
    assert f"{PYTHON}/{part}/__init__.py" in FILES["tributary-common"]
    ours = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    packed = {each.partition("/")[0] for each in parts.MODULES}
    assert imported(part) & ours <= packed


def test_a_file_that_the_checkout_lacks_is_named() -> None:
    with pytest.raises(CommandError, match=r"tributary-squid: no file docs/nowhere\*\.md in the checkout"):
        list(content.files(TRIXIE, "tributary-squid", "docs/nowhere*.md"))


@pytest.mark.parametrize("package", [package for package in PACKAGES.values() if package.sysctl])
def test_the_kernel_settings_that_a_package_loads_are_in_it(package: Package) -> None:
    assert {f"usr/lib/sysctl.d/{each}" for each in package.sysctl} <= FILES[package.name]


def test_an_installation_leaves_a_key_of_the_kernel_that_an_administrators_later_file_sets() -> None:
    """All files are read, as at boot, and of all keys ours are set."""
    package = PACKAGES["tributary-common"]
    assert {"net.ipv4.tcp_rmem", "net.ipv4.conf.all.rp_filter"} < {*package.kernel_parameters}
    (command,) = (line.split() for line in render.script(package, "postinst").splitlines() if "systemd-sysctl " in line)
    assert command[1:-2] == [f"--prefix={key}" for key in package.kernel_parameters]


def test_back_ends_find_out_by_themselves_which_packets_are_too_long() -> None:
    (settings,) = (file for file in PACKAGES["tributary-handoff"].files if file.path.startswith("usr/lib/sysctl.d/"))
    assert b"\nnet.ipv4.tcp_mtu_probing = 1\n" in settings.content


def test_only_a_systemd_that_knows_mptcp_gets_the_socket_unit() -> None:
    socket = "usr/lib/systemd/system/tributary-converter.socket"
    older = {package.name: package for package in parts.packages(inputs(release("bookworm")))}["tributary-converter"]
    assert socket in FILES["tributary-converter"]
    assert socket not in {file.path for file in older.files}
    assert [unit.name for unit in older.units] == ["tributary-converter.service"]


def test_every_wheel_is_named_with_its_licence() -> None:
    files = archive.complete(PACKAGES["tributary-common"], TRIXIE)
    told = next(file.content.decode() for file in files if file.path.endswith("/copyright"))
    assert (
        f"\nFiles: {PYTHON}/quick-1.2.dist-info/* {PYTHON}/quick/*\n"
        f"Copyright: The authors of quick 1.2\nLicense: MIT\n Its text is in {PYTHON}/quick-1.2.dist-info.\n"
    ) in told


def test_two_files_of_one_name_are_refused() -> None:
    package = PACKAGES["tributary-common"]
    twice = Package("x", "", "", files=(*package.files, File(package.files[0].path, b"")))
    with pytest.raises(CommandError, match="two files of this name"):
        archive.complete(twice, TRIXIE)


@pytest.mark.parametrize(("sizes", "kibibytes"), [([0], 3), ([1], 4), ([1024, 1025], 3 + 1 + 2)])
def test_the_installed_size_counts_as_dpkg_does(sizes: list[int], kibibytes: int) -> None:
    files = [File(f"usr/share/{number}", bytes(size)) for number, size in enumerate(sizes)]
    assert archive.installed_size(files) == kibibytes


def test_the_crates_of_a_program_are_told() -> None:
    for name, crate in (
        ("tributary-converter", " toml "),
        ("tributary-handoff", " http-range-header "),
        ("tributary-overlay", " etcd-client "),
    ):
        files = archive.complete(PACKAGES[name], TRIXIE)
        assert crate in next(file.content.decode() for file in files if file.path.endswith("/copyright"))


def test_the_squid_service_may_write_to_the_folder_that_its_settings_name() -> None:
    unit = TRIXIE.checkout["squid/systemd/tributary-squid.service"].decode()
    assert "\nStateDirectory=tributary/squid\n" in unit
    assert 'state_directory = "/var/lib/tributary/squid"' in TRIXIE.checkout["debs/files/squid.toml"].decode()


@pytest.mark.parametrize("package", PACKAGES.values(), ids=PACKAGES)
def test_no_group_takes_a_name_that_systemd_gives_a_dynamic_user(package: Package) -> None:
    """A service of a dynamic user that a group of the system is named like does not start (systemd.exec(5))."""
    groups = {each.group for each in PACKAGES.values()} - {None}
    dynamic = {
        PurePosixPath(file.path).stem.removesuffix("@")
        for file in package.files
        if file.path.endswith(".service") and b"\nDynamicUser=yes\n" in file.content and b"\nUser=" not in file.content
    }
    assert groups & dynamic == set()


def test_the_module_of_each_command_is_packed() -> None:
    commands = [
        line.split()[1]
        for package in PACKAGES.values()
        for file in package.files
        if file.content.startswith(b"#!/usr/bin/python3 -ISB")
        for line in file.content.decode().splitlines()
        if line.endswith(" import main")
    ]
    assert "command.cli" in commands
    for module in commands:
        assert f"{PYTHON}/{module.replace('.', '/')}.py" in FILES["tributary-common"], module


def test_a_purge_takes_private_keys_with_it() -> None:
    files = [file.content.decode(errors="ignore") for package in PACKAGES.values() for file in package.files]
    text = "\n".join([*files, (ROOT / "docs/handoff.md").read_text()])  # which is compressed in its package
    named = set(re.findall(r"etc/tributary/[a-z-]+(?=/node\.key)|(?<=--identity /)etc/tributary/[a-z-]+", text))
    assert len(named) == 6
    assert named - {path for package in PACKAGES.values() for path in package.leftovers} == set()
