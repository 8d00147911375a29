"""`holdfast mcp`."""
