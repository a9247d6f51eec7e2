"""Takes a path out of a running session, by what is measured, where the session is faster without it."""
