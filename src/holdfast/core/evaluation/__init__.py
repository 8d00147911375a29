"""Judges what a policy keeps: the needs of later replies, the losses, and a baseline of both."""
