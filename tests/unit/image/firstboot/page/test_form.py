"""Fields as browsers send them, and the card's file that comes of them."""

from urllib.parse import urlencode

import pytest

from console import password
from image.firstboot.page.form import MOST_FIELDS, Form
from image.firstboot.reading import Wrong, read
from image.firstboot.settings import Card, Role
from tests.unit.image.firstboot.cards import ENROLMENT
from tests.unit.image.firstboot.systems import SHIPPED, public_key

LAN = '[lan]\ninterface = "end0"\naddress = "192.168.77.1/24"\n'
GIVEN = {
    "lan": "end0",
    "address": "192.168.77.1/24",
    "link.enx1": "dsl",
    "link.wlan0": "",
    "link.enx2": "lte",
    "tables": ENROLMENT.replace("\n", "\r\n"),
    "ssh_keys": f"{public_key()}\r\n\r\n{public_key(comment='second')}\r\n",
}
FORM = Form.parse(urlencode(GIVEN).encode())


def card_of(text: str, form: Form = FORM) -> Card:
    return read(form.added_to(text, read(text.encode(), Role.ROUTER)).encode(), Role.ROUTER)


@pytest.mark.parametrize(
    "text",
    [
        "",
        SHIPPED.read_text(),
        SHIPPED.read_text().replace("\n", "\r\n"),
        'role = "router"',
        "# one line",
        '[network.end1]\naddress = "192.0.2.10/24"\n',
        '## a\u2028b\nhostname = "box"\n\n[wifi]\ncountry = "DE"\nssid = "n"\npassphrase = "12345678"',
    ],
    ids=["empty", "shipped", "by Windows", "a key", "a comment", "a table", "all"],
)
def test_what_was_given_is_added_and_the_rest_stays(text: str) -> None:
    before, card = read(text.encode(), Role.ROUTER), card_of(text)
    assert {name: wan.interface for name, wan in card.wan.items()} == {"dsl": "enx1", "lte": "enx2"}
    assert card.lan and (card.lan.interface, str(card.lan.address)) == ("end0", "192.168.77.1/24")
    assert card.ssh_keys == [public_key(), public_key(comment="second")]
    assert len(card.enrolment) == 1 and not card.first_start_page
    kept = card.model_fields_set - {"wan", "lan", "ssh_keys", "enrolment", "first_start_page"}
    assert kept == before.model_fields_set
    assert all(getattr(card, key) == getattr(before, key) for key in kept)


def test_what_the_card_says_already_is_not_said_again() -> None:
    text = f'ssh_keys = ["{public_key(comment="first")}"]\n{LAN.replace("end0", "end1")}'
    card = card_of(text)
    assert card.lan and card.lan.interface == "end1"
    assert card.ssh_keys == [public_key(comment="first")]


@pytest.mark.parametrize(
    "text",
    [
        "first_start_page = true",
        'hostname = "box"\n"first_start_page" = true # a page\nssh_keys = []\n[wifi]\nssid = "n"\n'
        'country = "DE"\npassphrase = "12345678"\n',
        "ssh_keys = [\n  # nobody yet\n]\nadmin_networks = []\n",
        "ssh_keys = [\r\n]\r\nfirst_start_page = true\r\n",
        SHIPPED.read_text().replace("# first_start_page = false", "first_start_page = true"),
    ],
    ids=["true", "in quotes", "in lines", "by Windows", "shipped"],
)
def test_what_the_card_says_by_hand_and_is_as_without_it_is_no_obstacle(text: str) -> None:
    before, card = read(text.encode(), Role.ROUTER), card_of(text)
    assert (card.first_start_page, len(card.ssh_keys)) == (False, 2)
    assert (card.hostname, card.wifi) == (before.hostname, before.wifi)


def test_keys_of_tables_and_texts_are_no_others() -> None:
    text = 'hostname = "box"\n[network.first_start_page]\ndhcp = true\n'
    assert text.partition("\n")[2] in FORM.added_to(text, Card())


def test_a_file_that_is_none_stays_as_it_is() -> None:
    assert "ssh_keys = [\n[[[" in FORM.added_to("ssh_keys = [\n[[[", Card())


def test_every_comment_of_the_file_on_the_image_stays_where_it_was() -> None:
    shipped = SHIPPED.read_text()
    added = FORM.added_to(shipped, Card()).split("\n")
    lines = iter(added)
    assert all(line in lines for line in shipped.rstrip("\n").split("\n"))
    assert added[0].startswith("## The settings of this Tributary box")


@pytest.mark.parametrize("name", ['a"]\n[lan', "dsl lte", "a.b", "x" * 41])
def test_a_link_s_name_is_a_name_and_never_more(name: str) -> None:
    form = Form.parse(urlencode({**GIVEN, "link.enx1": name}).encode())
    with pytest.raises(Wrong) as caught:
        card_of("", form)
    assert all("wan" in line for line in caught.value.lines)


def test_two_links_of_one_name_are_an_error() -> None:
    with pytest.raises(Wrong, match="Cannot declare"):
        card_of("", Form.parse(urlencode({**GIVEN, "link.enx1": "lte"}).encode()))


@pytest.mark.parametrize(
    "body",
    [
        b"code=a&code=b",
        b"surprise=1",
        b"code",
        b"code=%ff",
        "code=\u00e9".encode(),
        urlencode({f"link.{number}": "" for number in range(MOST_FIELDS + 1)}).encode(),
    ],
    ids=["twice", "unknown", "no value", "no UTF-8", "not encoded", "too many"],
)
def test_what_is_not_the_page_s_form_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        Form.parse(body)


def test_of_a_password_the_file_gets_the_hash() -> None:
    given = " correct horse "
    form = Form.parse(urlencode({**GIVEN, "password": given}).encode())
    text = form.added_to("", Card())
    hashed = card_of("", form).console_password_hash
    assert hashed and password.fits(given, hashed) and "correct horse" not in text
    other = password.hashed("another one")
    assert card_of(f'console_password_hash = "{other}"\n', form).console_password_hash == other
    assert card_of('console = "off"\n', form).console_password_hash is None


def test_secrets_are_in_no_traceback() -> None:
    assert "secret" not in repr(FORM) and "abcd" not in repr(Form(code="abcd", token="abcd", password="abcd"))
