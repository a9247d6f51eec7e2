"""Debian packages of the parts. Not called `packaging`: that is a library of PyPI's, and this folder would hide it."""
