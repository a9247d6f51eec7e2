"""What a mutant is, and the list of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.commands.conformance.reading import Refused, Request
from tests.commands.conformance.reference import Converter

ANY = frozenset({"*"})


@dataclass(frozen=True)
class Mutant:
    """`fails`: the checks that must fail on it. `may_fail`: others that may; `*` stands for all.

    `whole`: it needs all that a network namespace gives. `ipv6_first`: most checks use the server's IPv6 address.
    `sysctls`: how the kernel is set, which then is what has the defect.
    """

    name: str
    kind: type[Converter]
    fails: frozenset[str]
    may_fail: frozenset[str] = frozenset()
    whole: bool = False
    ipv6_first: bool = False
    sysctls: tuple[str, ...] = ()

    @property
    def any_may_fail(self) -> bool:
        return self.may_fail == ANY


MUTANTS: list[Mutant] = []


def mutant(
    *fails: str, may_fail: frozenset[str] = frozenset(), whole: bool = False, ipv6_first: bool = False
) -> Callable[[type[Converter]], type[Converter]]:
    """Takes a class, a defect under the class's name, into the list."""

    def register(kind: type[Converter]) -> type[Converter]:
        MUTANTS.append(Mutant(kind.__name__, kind, frozenset(fails), may_fail, whole, ipv6_first))
        return kind

    return register


def simple(
    name: str,
    *fails: str,
    base: type[Converter] = Converter,
    may_fail: frozenset[str] = frozenset(),
    whole: bool = False,
    sysctls: tuple[str, ...] = (),
    **overrides: Any,
) -> None:
    """A defect that is one replaced method or value of ``base``, or how the kernel is set."""
    MUTANTS.append(Mutant(name, type(name, (base,), overrides), frozenset(fails), may_fail, whole, sysctls=sysctls))


def lenient(
    name: str, *fails: str, demand: str, where: Callable[..., bool], may_fail: frozenset[str] = frozenset()
) -> None:
    """A defect: the method that makes a ``demand`` does nothing ``where`` its arguments are so."""

    def method(self: Converter, *arguments: Any) -> Any:
        return None if where(*arguments) else getattr(Converter, demand)(self, *arguments)

    MUTANTS.append(Mutant(name, type(name, (Converter,), {demand: method}), frozenset(fails), may_fail))


def strict(name: str, *fails: str, part: str, where: Callable[[Request, bytes], bool]) -> None:
    """A defect: the method that reads a ``part`` takes the request for malformed ``where`` its arguments are so."""

    def method(self: Converter, request: Request, value: bytes) -> Any:
        if where(request, value):
            raise self.malformed(request)
        return getattr(Converter, part)(self, request, value)

    MUTANTS.append(Mutant(name, type(name, (Converter,), {part: method}), frozenset(fails)))


def behind_connect(request: Request, *_: Any) -> bool:
    return request.address is not None


def refuse(code: int, value: bytes = b"\0") -> None:
    raise Refused(code, value)
