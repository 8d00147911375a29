"""The Gemini API: requests, replies and rules."""
