"""The `adopt` command."""
