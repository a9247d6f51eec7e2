"""All checks, in the order in which they run."""

from ..verdict import Check
from .capabilities import CHECKS as CAPABILITIES
from .cookies import CHECKS as COOKIES
from .data import CHECKS as DATA
from .destinations import CHECKS as DESTINATIONS
from .endings import CHECKS as ENDINGS
from .opening import CHECKS as OPENING
from .options import CHECKS as OPTIONS
from .refusals import CHECKS as REFUSALS

ALL: tuple[Check, ...] = (*OPENING, *DATA, *ENDINGS, *CAPABILITIES, *OPTIONS, *REFUSALS, *DESTINATIONS, *COOKIES)
