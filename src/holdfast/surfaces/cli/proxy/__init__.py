"""The commands that run the proxy."""
