"""What authorize and revoke accept; what they do runs on the real etcd, in tests/netns."""

import pytest

from overlay.__main__ import main
from tributary.settings.errors import Exit

ETCD = ("--endpoints", "https://192.0.2.9:2379")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["authorize", "root", *ETCD], "root: accepted: a name that the authority does not use itself"),
        (["authorize", "london", "etcd", *ETCD], "etcd: accepted: a name that the authority does not use itself"),
        (["authorize", "a/b", *ETCD], "'a/b' is no name: accepted: 1 to 64 of"),
        (["authorize", "london", "--as", "king", *ETCD], "choose from"),
        (["authorize", "london"], "--endpoints"),
        (["authorize", *ETCD], "NAME"),
        (["revoke", "root", *ETCD], "root: accepted: a name that the authority does not use itself"),
        (["revoke", "london"], "--endpoints"),
    ],
)
def test_wrong_arguments(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == Exit.USAGE
    assert said in capsys.readouterr().err
