"""The store that keeps each session as a JSON Lines file."""
