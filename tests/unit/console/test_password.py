import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from console import password

BY_MKPASSWD = "$7$CU..../....abcdefghij$GzTqWxTF0u6fjw43rLfGGkQ5Ouxbz0v8/EXOH8rRfU8"
"""As libxcrypt's crypt(3) has made it of `correct horse battery`, at the cost that mkpasswd(1) chooses."""
FORMER = "$7$C6....3....pWLdKri1ik7SbnQEfrypm/$A3BHLMLPLqnqsyDaWnKWAnjlJD5RwiTDGxTbFi0TofD"
"""As this console made it of `correct horse` before it had Argon2."""
BY_ARGON2 = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
"""Of `password`, from libargon2's own tests (test.c)."""


@pytest.mark.parametrize("given", ["correct horse", "pässwörd \N{SNOWMAN}", "x" * 1000])
def test_a_password_fits_what_was_kept_of_it(given: str) -> None:
    kept = password.hashed(given)
    assert given not in kept and password.checked(kept) == kept
    assert password.fits(given, kept) and not password.fits(given + "x", kept)
    assert password.hashed(given) != kept


@pytest.mark.parametrize(
    ("given", "kept"), [("correct horse battery", BY_MKPASSWD), ("correct horse", FORMER), ("password", BY_ARGON2)]
)
def test_hashes_of_others_are_good(given: str, kept: str) -> None:
    assert password.checked(kept) == kept
    assert password.fits(given, kept) and not password.fits(given + "x", kept)


def test_hashes_are_of_the_second_recommended_option_of_rfc_9106_and_what_is_no_text_is_refused() -> None:
    assert password.hashed("correct horse").startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    with pytest.raises(TypeError):
        password.checked({"salt": "00", "scrypt": "00"})


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
        BY_ARGON2[:-1],  # bits are left over
        f"{BY_ARGON2}\n",
        BY_ARGON2.replace("argon2id", "argon2i"),
        BY_ARGON2.replace("v=19", "v=16"),
        BY_ARGON2.replace("m=65536", "m=65537"),
        BY_ARGON2.replace("t=2", "t=9"),  # eight passes over 64 MiB are enough
        BY_ARGON2.replace("m=65536", "m=7"),
        BY_ARGON2.replace("m=65536,t=2,p=1", "m=63,t=2,p=8"),  # eight KiB a lane: RFC 9106 section 3.1
        BY_ARGON2.replace("p=1", "p=9"),
        BY_ARGON2.replace("t=2", "t=02"),
        BY_ARGON2.replace("c29tZXNhbHQ", "c29tZXNhbHQa="),
        BY_ARGON2.replace("c29tZXNhbHQ", "c29tZXNhbHQab"),
    ],
)
def test_what_is_no_hash_or_takes_too_much_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="never a password"):
        password.checked(text)


def test_a_password_that_is_no_longer_in_memory_costs_none() -> None:
    """Of 64 MiB for each, in whatever thread."""
    before = resident()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: password.hashed("correct horse"), range(4)))
        assert resident() - before < 16 << 20


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
