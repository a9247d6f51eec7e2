"""Converters with one defect each, and the checks that must fail on them: so each is known to be able to."""

from tests.commands.conformance.mutants import answers, opening, options, refusals, relay
from tests.commands.conformance.mutants.mutant import MUTANTS, Mutant

__all__ = ["MUTANTS", "Mutant", "answers", "opening", "options", "refusals", "relay"]
