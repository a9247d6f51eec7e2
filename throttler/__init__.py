"""The throttler: sees the subflows of MPTCP sessions, and limits the rate of chosen ones.

One direction, no way back: source -> event -> sessions -> policy -> plan -> apply. Everything from the event to the
plan is plain data in, plain data out, with the clock passed in; only the source (sniffer) and apply touch the world.
"""
