"""What kernel-config/ asks for, merged into Debian's configurations and source by the tools that come with them."""

import os
from collections.abc import Iterator

import pytest

from image.debian import System, base, unpacked
from image.kernel.build import (
    ARCHITECTURES,
    BOARDS,
    KCONFIG,
    MERGING,
    SUITE,
    Board,
    apply_patches,
    merge,
    parse,
    read_fragments,
    read_patches,
    unpack_source,
)
from tests.netns.world import needs
from tributary.paths import CACHE, ROOT
from tributary.settings.errors import CommandError, Exit

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    needs("mmdebstrap"),
    # The first time a Debian with two compilers is made.
    pytest.mark.timeout(1200),
]

FRAGMENTS = read_fragments(ROOT / "kernel-config")


@pytest.fixture(scope="module")
def debian() -> Iterator[System]:
    """A Debian with the compilers for both boards and what olddefconfig and our patches read of its kernel source."""
    with unpacked(base(CACHE, SUITE, ARCHITECTURES, MERGING), CACHE) as system:
        unpack_source(system, only=(*KCONFIG, "*/net/mptcp/*"))
        yield system


@pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
def test_every_option_of_every_fragment_is_kept(debian: System, board: Board) -> None:
    merged = merge(debian, board, FRAGMENTS)  # raises, with the options that are lost
    assert parse(merged)["CONFIG_MPTCP_IPV6"] == "y"
    assert parse(merged)["CONFIG_X86_64" if board.name == "x86" else "CONFIG_ARCH_BCM2835"] == "y"


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("CONFIG_NET_SCH_HBT=m", "CONFIG_NET_SCH_HBT=m of own.config came out as n"),  # no such option
        ("CONFIG_INET_DIAG=y\nCONFIG_SMC_DIAG=y", "CONFIG_SMC_DIAG=y of own.config came out as m"),  # SMC is a module
        ("# CONFIG_IPV6 is not set", "CONFIG_MPTCP_IPV6=y of mptcp-ipv6.config came out as n"),  # it takes others along
    ],
)
def test_what_a_fragment_loses_is_said_with_its_name(debian: System, own: str, said: str) -> None:
    with pytest.raises(CommandError) as caught:
        merge(debian, BOARDS["x86"], {**FRAGMENTS, "own.config": own})
    assert said in str(caught.value)
    assert caught.value.code == Exit.WRONG_RESULT


def test_every_patch_fits_debians_source_and_only_once(debian: System) -> None:
    patches = read_patches(ROOT / "kernel-config")
    apply_patches(debian, patches)
    changed = debian.path("/usr/src/linux-source-6.12/net/mptcp/protocol.c").read_text()
    assert "if (!subflow->map_valid)\n\t\tsubflow->map_seq = READ_ONCE(msk->ack_seq);" in changed
    with pytest.raises(CommandError, match=r"patch .* failed"):
        apply_patches(debian, patches)
