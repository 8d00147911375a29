"""Views of a session for one purpose: the loop of a caller, and calls that wait."""
