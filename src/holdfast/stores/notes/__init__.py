"""The store of note files."""
