"""What is kept of a password."""

import pytest

from console import password

BY_MKPASSWD = "$7$CU..../....abcdefghij$GzTqWxTF0u6fjw43rLfGGkQ5Ouxbz0v8/EXOH8rRfU8"
"""As libxcrypt's crypt(3) has made it of `correct horse battery`, at the cost that mkpasswd(1) chooses."""


@pytest.mark.parametrize("given", ["correct horse", "pässwörd \N{SNOWMAN}", "x" * 1000])
def test_a_password_fits_what_was_kept_of_it(given: str) -> None:
    kept = password.hashed(given)
    assert given not in kept and password.checked(kept) == kept
    assert password.fits(given, kept) and not password.fits(given + "x", kept)
    assert password.hashed(given) != kept


def test_hashes_are_those_of_crypt() -> None:
    assert password.checked(BY_MKPASSWD) == BY_MKPASSWD
    assert password.fits("correct horse battery", BY_MKPASSWD)
    assert not password.fits("correct horse", BY_MKPASSWD)


@pytest.mark.parametrize(
    "text",
    [
        "correct horse",
        "",
        "$y$j9T$8SQ7ULJHDbWyTOQMi5T6n0$pa.IU0TyFAOmSxaM.xfc0IAQ3qS5CFvHA7AdK35uaBA",
        BY_MKPASSWD[:-1],
        f"{BY_MKPASSWD}\n",
        BY_MKPASSWD.replace("$7$CU", "$7$DU"),  # 128 MiB
        BY_MKPASSWD.replace("$7$CU..../", "$7$CU....1"),  # three times over
        BY_MKPASSWD.replace("$7$C", "$7$."),
        BY_MKPASSWD.replace("$7$CU", "$7$E/"),  # N = 2^16 with r = 1, which OpenSSL refuses
        BY_MKPASSWD.replace("$7$CU..../....", "$7$/6.......E."),  # r = 8, p = 65536: 64 MiB for p blocks
        BY_MKPASSWD.replace("$7$CU", "$7$C."),
        BY_MKPASSWD.replace("/....a", ".....a"),
        BY_MKPASSWD.replace("$7$CU....", "$7$zzzzzz"),
    ],
)
def test_what_is_no_hash_or_takes_too_much_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="never a password"):
        password.checked(text)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError):
        password.checked({"salt": "00", "scrypt": "00"})
