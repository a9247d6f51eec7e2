"""Which slot a Raspberry Pi starts next, told as the story of its boot partition."""

import pytest

from image.upgrade.choice import Choice, named, naming, states
from tributary.settings.errors import CommandError

CONFIG = "# mine\nos_prefix=a/\narm_64bit=1\n[pi4]\narm_boost=1\n"
NEW = Choice("A", None, frozenset("A"))


def initramfs(choice: Choice) -> Choice:
    """What image/make/files' script does."""
    return Choice(choice.back or choice.first, choice.back, choice.good)


def test_a_slot_is_tried_once_and_stays_when_it_is_found_good() -> None:
    written = NEW.judge("B", "A", good=False)  # RAUC is about to write it
    assert written == NEW
    tried = written.prefer("B", "A")
    assert (tried.first, tried.back) == ("B", "A")
    started = initramfs(tried)
    assert (started.first, started.back) == ("A", "A")
    assert started.judge("B", "B", good=True) == Choice("B", None, frozenset("AB"))


def test_a_slot_that_gets_nowhere_gives_way_to_the_one_before() -> None:
    started = initramfs(NEW.prefer("B", "A"))
    again = initramfs(started)
    assert again.first == "A"
    assert again.judge("A", "A", good=True) == Choice("A", None, frozenset("AB"))


def test_a_slot_that_is_given_up_may_not_be_started() -> None:
    started = initramfs(NEW.prefer("B", "A"))
    assert started.judge("B", "B", good=False) == NEW


def test_a_slot_whose_boot_partition_could_not_be_written_early_stays_all_the_same() -> None:
    assert NEW.prefer("B", "A").judge("B", "B", good=True) == Choice("B", None, frozenset("AB"))


def test_what_waits_for_its_trial_is_not_called_off_by_the_system_that_runs() -> None:
    tried = NEW.prefer("B", "A")
    assert tried.judge("A", "A", good=True) == tried


def test_what_is_written_anew_before_its_trial_does_not_start_half() -> None:
    assert NEW.prefer("B", "A").judge("B", "A", good=False) == NEW


def test_the_way_back_is_a_trial_too() -> None:
    upgraded = Choice("B", None, frozenset("AB"))
    back = upgraded.prefer("A", "B")
    assert (back.first, back.back) == ("A", "B")
    assert initramfs(back).judge("A", "A", good=True) == Choice("A", None, frozenset("AB"))


def test_the_system_that_runs_can_be_preferred_again() -> None:
    assert NEW.prefer("B", "A").prefer("A", "A") == Choice("A", None, frozenset("AB"))


def test_the_last_slot_that_is_left_keeps_starting() -> None:
    assert NEW.judge("A", "A", good=False) == Choice("A", None, frozenset())


@pytest.mark.parametrize("choice", [NEW, Choice("B", None, frozenset("AB")), Choice("B", "A", frozenset())])
def test_a_choice_is_read_as_it_was_written(choice: Choice) -> None:
    back = naming(CONFIG, choice.back) if choice.back else None
    assert Choice.of(naming(CONFIG, choice.first), back, states(choice.good)) == choice


def test_the_rest_of_a_configuration_is_whoever_wrote_it() -> None:
    assert naming(CONFIG, "B") == CONFIG.replace("=a/", "=b/")
    assert named("os_prefix=a/\n[all]\nos_prefix=b/\n") == "B"  # the firmware takes the last one


def test_a_configuration_without_a_slot_is_refused() -> None:
    with pytest.raises(CommandError, match=r"config\.txt names no slot: accepted: a line os_prefix=a/ or os_prefix=b/"):
        named("os_prefix=current/\n")
