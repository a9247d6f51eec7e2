"""Writes an image to a card, and proves that it arrived.

Needs nothing but Python's standard library and what unpacks the image.
"""
