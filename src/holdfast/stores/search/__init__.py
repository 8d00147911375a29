"""The index of memory: passages of notes and sessions, by their terms and by their vectors."""
