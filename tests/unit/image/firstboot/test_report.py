"""What a box says of itself on the card and above the login prompt."""

from pathlib import Path

from image.firstboot import boot
from image.firstboot.reading import read
from image.firstboot.report import APPLIED, Report, next_steps
from image.firstboot.settings import Card, Role
from tests.refusals import command_error
from tests.unit.image.firstboot.cards import HOME
from tests.unit.image.firstboot.systems import facts
from tributary.settings.errors import Exit


def test_an_address_of_ipv6_is_apart_from_its_port() -> None:
    card = read(b'client_networks = ["2001:db8::/32"]\nadmin_networks = ["fd00::/8"]\n', Role.GATEWAY)
    said = " ".join(next_steps(card, facts(), ["2001:db8::7"]))
    assert "HTTP proxy: [2001:db8::7]:3128 (Squid) or 3129 (native)" in said
    assert "http://[2001:db8::7]:8480/" in said


def test_a_file_on_the_card_that_cannot_be_read_is_no_reason_to_stop(tmp_path: Path) -> None:
    card, root = tmp_path / "card", tmp_path / "root"
    # As FAT may leave it when power fails: there, and no file.
    (card / APPLIED).mkdir(parents=True)
    Report(card, root, None).applied("This is a box.", ["Log in."], [])
    assert "This is a box." in (root / "etc/issue.d/50-tributary.issue").read_text()


def test_without_a_file_on_the_card_it_is_said_what_will_do_instead(tmp_path: Path) -> None:
    with command_error(Exit.NO_INPUT, "an empty one will do to begin with"):
        boot.content(tmp_path)
    assert all(read(b"", role) == Card() for role in Role)


def test_a_link_that_waits_is_not_said_to_be_used_all_the_time() -> None:
    def said(more: str) -> str:
        steps = next_steps(read(HOME.replace("[lan]", f"{more}[lan]").encode(), Role.ROUTER), facts(Role.ROUTER))
        return next(step for step in steps if step.startswith("Their TCP connections"))

    assert said("").startswith("Their TCP connections take dsl, lte, all at once. HTTP proxy")
    assert "take dsl; lte when no other works. " in said('use = "backup"\n')
    assert "take dsl, c, all at once; lte when others are full. " in said(
        'use = "overflow"\n[wan.c]\ninterface = "end1"\n'
    )
