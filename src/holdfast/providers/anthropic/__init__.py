"""The Anthropic Messages API: requests, replies and rules."""
