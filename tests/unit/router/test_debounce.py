from router.debounce import LONGEST, QUIET, Debounce


def test_one_look_for_a_burst_when_it_is_over() -> None:
    debounce = Debounce()
    assert debounce.due is None
    debounce.change(10.0)
    debounce.change(10.02)
    assert debounce.due == 10.02 + QUIET


def test_a_burst_that_does_not_end_is_looked_at_all_the_same() -> None:
    debounce = Debounce()
    for operation in range(100):
        debounce.change(10.0 + operation / 100)
    assert debounce.due == 10.0 + LONGEST


def test_after_a_look_all_begins_anew() -> None:
    debounce = Debounce()
    debounce.change(10.0)
    debounce.reset()
    assert debounce.due is None
    debounce.change(20.0)
    assert debounce.due == 20.0 + QUIET
