"""The command scripts/build-kernel."""

import os
from pathlib import Path

from image.debian import base, unpacked
from image.kernel import build
from tributary.paths import CACHE, ROOT
from tributary.settings.cli import Arguments, need_root, program, run, whole_number
from tributary.settings.errors import Exit, refused

_DESCRIPTION = f"""\
Builds Debian's kernel {build.VERSION} with all that kernel-config/*.config asks for, changed by kernel-config/*.patch.
Debian's own kernels have all options already: this is for those who need their own, with other options beside these (a
fragment more in kernel-config/), or with the patches (docs/kernel.md says who does).

The kernel's own tools merge the fragments into Debian's configuration, in a Debian {build.SUITE} made by mmdebstrap. An
option that they do not keep ends the command. The packages (linux-image, linux-headers) take one to four hours and
30 GB on four processors.

The Debian, with the source as it was then, is kept in {CACHE}/debian; what is removed there is made
anew, with Debian's newest source.

exit codes:
  0   the configuration, and without --merge-only the packages, are there
  1   an option was not kept
  64  wrong arguments, or a line of a fragment that asks for nothing
  69  mmdebstrap is missing
  71  a step failed, see what it printed
  77  not root
"""


def parser() -> Arguments:
    """The arguments of build-kernel."""
    parser = Arguments(prog="scripts/build-kernel", description=_DESCRIPTION)
    parser.set_handler(_build)
    add = parser.add_argument
    add("--board", choices=sorted(build.BOARDS), required=True, help="x86: amd64; rpi: arm64, cross-compiled")
    add("--merge-only", action="store_true", help="the configuration alone: a minute instead of hours")
    output, jobs = Path("results/kernel"), os.cpu_count() or 1
    add("--output", type=Path, default=output, metavar="DIR", help=f"default: {output}")
    add("--jobs", type=whole_number(1, 1024), default=jobs, help=f"processes at a time (default: {jobs})")
    add("--dry-run", action="store_true", help="say what would be done")
    return parser


def _build(board: str, merge_only: bool, output: Path, jobs: int, dry_run: bool) -> None:
    target = build.BOARDS[board]
    packages = build.MERGING if merge_only else (*build.MERGING, *build.BUILDING)
    fragments = build.read_fragments(ROOT / "kernel-config")
    patches = {} if merge_only else build.read_patches(ROOT / "kernel-config")
    if dry_run:
        print(f"would make a Debian {build.SUITE} with {', '.join(packages)}")
        print(f"would merge {', '.join(fragments)} into {target.config}")
        if patches:
            print(f"would apply {', '.join(patches)}")
        return
    need_root("build-kernel")
    with refused(Exit.SYSTEM, output, "cannot be made"):
        output.mkdir(parents=True, exist_ok=True)
    with unpacked(base(CACHE, build.SUITE, build.ARCHITECTURES, packages), CACHE) as system:
        build.unpack_source(system, only=build.KCONFIG if merge_only else ())
        config = output / f"tributary-{target.name}-{build.VERSION}.config"
        config.write_text(build.merge(system, target, fragments))
        print(config)
        if not merge_only:
            build.apply_patches(system, patches)
            print(*build.build(system, target, jobs, output), sep="\n")


main = program(parser)

if __name__ == "__main__":
    run(main, "build-kernel")
