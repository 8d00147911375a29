"""The web console: pages over the same routes, workspace and numbers as the HTTP API."""
