"""Sessions, blocking and asynchronous, and the drivers that run their flows."""
