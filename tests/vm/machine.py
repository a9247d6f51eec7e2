"""Debian and Ubuntu machines with their own kernels, in QEMU under software emulation.

The test machine's kernel may lack sch_netem, fq_codel, PPPoE, simulated radios and more; Debian's has them. The guest
is built from Debian packages (mmdebstrap), keeps no state, and has no network: what it needs, the checkout or some
files, is put into its disk before it boots.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments.testbed import native
from image.debian import base
from image.make.foreign import runnable
from tests.debs.ubuntu import sources
from tests.netns.world import needs
from tributary import cargo
from tributary.paths import CACHE, ROOT

# And what the kernel's package does not bring with it.
_KERNELS = {
    "bookworm": ("linux-image-cloud-amd64", "mount"),
    "noble": ("linux-image-virtual", "initramfs-tools"),
    "trixie": ("linux-image-cloud-amd64",),
}
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_GUEST_CACHE = "var/cache/tributary"
_HOST_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# No KVM: it may be there and unusable.
_REAL_TIME = ("-accel", "tcg,thread=multi", "-smp", "2")
# Each instruction takes one nanosecond of the guest's clock, and time in which the guest is idle takes none of ours.
_COUNTING = ("-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-smp", "1")
_BARE = ("-m", "2G", "-display", "none", "-serial", "stdio", "-no-reboot", "-nic", "none")


def emulated(seconds: int, program: str = "qemu-system-x86_64") -> list[pytest.MarkDecorator]:
    """The marks of tests that may take so long in a guest of ``program``: Debian's folders are made for x86-64."""
    x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the guest is made with x86-64's programs")
    return [x86_64, needs(program), pytest.mark.timeout(seconds)]


@dataclass(frozen=True)
class Machine:
    """What is emulated: Debian's name of the processor, QEMU's command, and what the kernel is told."""

    architecture: str
    command: tuple[str, ...]
    kernel: str


def pc(*, counting: bool = False) -> Machine:
    """Two processors that run as fast as they can, or one of a thousand million instructions each second."""
    # The processor has what NumPy's wheels need (x86-64-v2); of that the kernel must not use cmpxchg16b
    # (clearcpuid=cx16), which QEMU before 8 emulates in a way that crashes SLUB.
    processor = ("-cpu", "qemu64,-svm,+ssse3,+sse4.1,+sse4.2,+popcnt")
    emulated = ("qemu-system-x86_64", *(_COUNTING if counting else _REAL_TIME), *processor, *_BARE)
    return Machine("amd64", emulated, "console=ttyS0 clearcpuid=cx16")


def arm(processor: str) -> Machine:
    """One ``processor`` of QEMU's list, of a thousand million instructions each second."""
    emulated = ("qemu-system-aarch64", "-machine", "virt", "-cpu", processor, *_COUNTING, *_BARE)
    return Machine("arm64", emulated, "console=ttyAMA0")


_PC = pc()


def root_folder(work: Path, more: Sequence[str] = (), suite: str = "trixie", *, released: bool = False) -> Path:
    """A root file system in ``work``/root: packages, ``more``, the Python environment, our programs, the checkout.

    Benchmarks and experiments want the converter ``released``, too.
    """
    lists = (ROOT / "scripts/setup.d/packages.txt", ROOT / "scripts/setup.d/packages-testbed.txt")
    named = [name for each in lists for name in each.read_text().split()]
    packages = (*_KERNELS[suite], "kmod", *named, *more)
    root = debian_folder(work, packages, suite=suite)
    _copy_checkout(root / "tributary")
    _install_python(root)
    shutil.copytree(native.build().converter.parent, root / _GUEST_CACHE / "bin")
    if released:
        cargo.build("tributary-converter", "tributary-load", released=True)
        shutil.copytree(CACHE / "released", root / _GUEST_CACHE / "released")
    return root


def debian_folder(
    work: Path, packages: Sequence[str], architecture: str = _PC.architecture, suite: str = "trixie"
) -> Path:
    """A root file system in ``work``/root: Debian's or Ubuntu's ``suite`` with ``packages``, a kernel among them."""
    root = work / "root"
    root.mkdir()
    with runnable(architecture):
        made = base(CACHE, suite, architecture, packages, sources(suite) if suite == "noble" else ())
    subprocess.run(["tar", "-xf", made, "-C", root], check=True)
    shutil.copy(ROOT / "tests/vm/guest-init", root / "guest-init")
    (root / "tributary").mkdir()
    return root


def printed(
    factory: pytest.TempPathFactory, make: Callable[[Path], Path], script: str, seconds: int, machine: Machine = _PC
) -> str:
    """What ``script`` prints in a guest whose root file system ``make`` puts into a folder, which is removed again."""
    work = factory.mktemp("vm")
    try:
        return boot(make(work), script, seconds, machine)
    finally:
        shutil.rmtree(work)


def boot(root: Path, script: str, seconds: int, machine: Machine = _PC) -> str:
    """Boot ``root`` with bash ``script`` as its only job; returns what it printed. Raises TimeoutExpired."""
    (root / "guest-script").write_text(script)
    disk = root.parent / "disk.img"
    disk.unlink(missing_ok=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-d", root, disk, "3G"], check=True)
    kernel, initrd = (next((root / "boot").glob(f"{name}-*")) for name in ("vmlinuz", "initrd.img"))
    command = [*machine.command, "-kernel", str(kernel), "-initrd", str(initrd)]
    command += ["-append", f"{machine.kernel} root=/dev/vda rw quiet init=/guest-init"]
    command += ["-drive", f"file={disk},if=virtio,format=raw"]
    console = root.parent / "console"
    try:
        with console.open("w") as said:
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=seconds, check=False)
    finally:
        text = console.read_text(errors="replace").replace("\r", "")
        sys.stdout.write(text)  # shown by pytest if the test fails
    return text


def _copy_checkout(target: Path) -> None:
    """What git tracks and what it would: no caches, no results."""
    command = ["git", "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():  # a file that was removed is still listed until that is committed
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)


def _install_python(root: Path) -> None:
    """The set-up's own script, inside; with the host's certificates, as its index may be a mirror of its own."""
    shutil.copy(_HOST_CERTIFICATES, root / "tmp/host-certificates.crt")
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    environment = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    environment |= {"PATH": _PATH, "PIP_CERT": "/tmp/host-certificates.crt"}
    environment.pop("PIP_FIND_LINKS", None)
    command = ["chroot", str(root), "bash", "/tributary/scripts/setup.d/python", f"/{_GUEST_CACHE}"]
    subprocess.run(command, env=environment, check=True)
    # Once here, not at each start under emulation.
    compiling = [f"/{_GUEST_CACHE}/python/bin/python", "-m", "compileall", "-q", "/tributary"]
    subprocess.run(["chroot", str(root), *compiling], env=environment, check=True)
