"""Rounds of a reply, in which the proxy answered calls of its own tools, as one reply."""
