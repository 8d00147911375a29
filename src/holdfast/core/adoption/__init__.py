"""The comparison of a session with the source that it came from."""
