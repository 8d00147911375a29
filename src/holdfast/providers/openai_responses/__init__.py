"""The OpenAI Responses API: requests, replies and rules."""
