"""The OpenAI Chat Completions API, and the many servers that imitate it."""
