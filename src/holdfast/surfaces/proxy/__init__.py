"""The proxy over HTTP."""
