"""The `chat` command: input, loop, notices and tools."""
