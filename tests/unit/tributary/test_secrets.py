import base64
import tomllib

import pytest

from image.firstboot.reading import Wrong
from image.firstboot.reading import read as read_card
from image.firstboot.settings import Role
from router.settings import RouterSettings
from tributary.settings.errors import CommandError, invalid_value
from tributary.settings.files import check

SECRET = base64.b64encode(bytes(range(100, 132))).decode()
PUBLIC = base64.b64encode(bytes(range(32))).decode()
ENROLMENT = f"""
[[enrolment]]
gateway = "gateway.example.net"
public_key = "{PUBLIC}"
secret = "{SECRET}"
addresses = "10.84.0.16/28"
inside = "10.84.0.1"
"""
WAN = '[wan.dsl]\ninterface = "eth0"\n'
GOOD = WAN + ENROLMENT

WRONG = {
    "an option that needs another": 'lan_ipv6 = "translated"\n' + GOOD,
    "a link that adapts to nothing": GOOD.replace('"eth0"', '"eth0"\nadapt = true'),
    "a link without any rule": GOOD.replace('interface = "eth0"', "metered = true"),
    "a target that is elsewhere": GOOD + '[probe]\ntarget = "203.0.113.5:5124"\n',
    "a name that is taken": GOOD.replace("eth0", "tb1"),
    "no links": "wan = {}\n" + ENROLMENT,
    "links that are no table": "wan = 5\n" + ENROLMENT,
    "two links of one interface": GOOD + WAN.replace("dsl", "lte"),
    "a key of the whole file that there is not": "foo = 5\n" + GOOD,
    "an enrolment that is no list": GOOD.replace("[[enrolment]]", "[enrolment]"),
    "an enrolment called otherwise": GOOD.replace("enrolment", "enrollment"),
    "an enrolment in a link": GOOD.replace("[[enrolment]]", "[[wan.dsl.enrolment]]"),
    "a mistyped key's name": GOOD.replace("secret =", "sercet ="),
    "another name for it": GOOD.replace("secret =", "key ="),
    "a name with capitals": GOOD.replace("secret =", "Secret ="),
    "the secret one sign short": GOOD.replace(SECRET, SECRET[1:]),
    "the secret one sign long": GOOD.replace(SECRET, "A" + SECRET),
    "the secret with a blank": GOOD.replace(SECRET, SECRET + " "),
    "a secret of another kind": GOOD.replace(f'"{SECRET}"', f'["{SECRET}"]'),
    "the secret where another value belongs": GOOD.replace("10.84.0.16/28", SECRET),
    "a longer text with the secret": GOOD.replace("10.84.0.16/28", f"secret = {SECRET}"),
    "the secret as the public key, cut": GOOD.replace(PUBLIC, SECRET[1:]),
    "no addresses": GOOD.replace('addresses = "10.84.0.16/28"', ""),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_home_routers_settings_are_refused_without_their_secret(what: str) -> None:
    with pytest.raises(CommandError) as caught:
        check(tomllib.loads(WRONG[what]), RouterSettings, "router.toml")
    message = str(caught.value)
    assert message.startswith("router.toml: ") and ": accepted: " in message
    # A traceback would show the cause as well.
    assert SECRET[2:-3] not in f"{message} {caught.value.__cause__}"


CARD = 'role = "router"\n[wan.dsl]\ninterface = "end1"\n[wan.lte]\ninterface = "usb0"\n'
PASSWORD = "Xyzzy-4711"
CARDS = {
    "a password with a wrong name": CARD + f'[wifi]\nssid = "home"\ncountry = "DE"\npasword = "{PASSWORD}"\n',
    "a password called key": CARD + f'[wifi]\nssid = "home"\ncountry = "DE"\nkey = "{PASSWORD}"\n',
    "a table with a wrong name": CARD + f'[wan.dsl.ppoe]\nuser = "u"\npassword = "{PASSWORD}"\n',
    "a table in which something is missing": CARD + f'[wan.dsl.pppoe]\npassword = "{PASSWORD}"\n',
    "a PIN": CARD + f'[wan.lte.modem]\napn = "web"\npin = "{PASSWORD}"\n',
    "a link without a rule": f'role = "router"\n[wan.dsl.pppoe]\nuser = "u"\npassword = "{PASSWORD}"\n',
    "a secret": CARD + ENROLMENT.replace("secret =", "sercet =").replace(SECRET, PASSWORD),
}


@pytest.mark.parametrize("what", CARDS)
def test_a_card_is_refused_without_its_passwords(what: str) -> None:
    with pytest.raises(Wrong) as caught:
        read_card(CARDS[what].encode(), Role.ROUTER)
    assert caught.value.lines and PASSWORD not in str(caught.value)


@pytest.mark.parametrize(("key", "is_shown"), [("bypass", True), ("passphrase", False), ("rules[0].pin", False)])
def test_a_secret_is_recognized_by_the_keys_name(key: str, is_shown: bool) -> None:
    assert str(invalid_value("f", key, "x", "y")) == f"f: {key} = {'x' if is_shown else '(not shown)'!r}: accepted: y"


def test_other_values_are_shown_so_that_people_know_which_is_meant() -> None:
    assert str(invalid_value("f", "rate", "5", "a rate")) == "f: rate = '5': accepted: a rate"
    assert str(invalid_value("f", "secret", "(missing)", "a key")) == "f: secret = '(missing)': accepted: a key"
