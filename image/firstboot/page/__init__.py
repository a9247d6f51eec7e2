"""The first-start page: a home router that has no settings yet asks for them, at the LAN's side alone.

It decides nothing: ``image.firstboot`` judges what was given, says what would be done, and does it at the next start.
"""
