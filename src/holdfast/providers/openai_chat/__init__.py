"""The OpenAI Chat Completions API and its imitators: requests, replies and rules."""
