"""How what a user writes comes in: settings files, units, arguments; and how a wrong one is refused."""
