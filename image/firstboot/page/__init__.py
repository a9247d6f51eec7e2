"""The first-start page: a home router that has no settings yet asks for them, at the LAN's side alone.

It decides nothing by itself: ``image.firstboot`` judges what was given, says what would be done, and does it when the
box starts anew.
"""
