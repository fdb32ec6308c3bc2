"""The demo: runs of a real machine, recorded as their events, told again at a pace of one's own."""
