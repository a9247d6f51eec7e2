"""Files with sections of ``key=value``: of systemd and of NetworkManager. Pure."""

from collections.abc import Iterable


def sections(*given: tuple[str, Iterable[tuple[str, object]]]) -> str:
    """One section for each name with its entries, in their order; a key may come again."""
    return "\n".join(f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in entries) for name, entries in given)
