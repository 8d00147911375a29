"""The `demo` command: it replays a recorded session through the engine."""
