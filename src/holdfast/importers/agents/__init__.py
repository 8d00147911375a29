"""Transcripts of coding agents, terminals and web chats."""
