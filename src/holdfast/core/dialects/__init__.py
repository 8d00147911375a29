"""The dialects: how each API writes a request, a reply and a stream, and what it refuses."""
