"""Which links there are, whether they work, and which of them are used."""
