"""Writes an image to a card, and proves that it arrived.

Needs Python's standard library, util-linux, fdisk and what unpacks the image.
"""
