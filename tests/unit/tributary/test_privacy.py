import pytest

from tributary.settings.privacy import HIDDEN, Privacy, shortened


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.77", "192.0.2.0"),
        ("2001:db8:1:2::3", "2001:db8:1::"),
        ("::ffff:192.0.2.77", "::"),
        ("fe80::1%eth0", "fe80::"),
        ("no address", HIDDEN),
    ],
)
def test_a_network_or_nothing_is_shown(address: str, network: str) -> None:
    shown: dict[Privacy, str] = {"full": address, "network": network, "none": HIDDEN}
    assert {privacy: shortened(address, privacy) for privacy in shown} == shown
