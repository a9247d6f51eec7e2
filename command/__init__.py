"""The command ``tributary``: one for a gateway and a home router alike, with what runs on that box."""
