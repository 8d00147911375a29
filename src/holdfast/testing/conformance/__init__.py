"""The promises of each port, as checks for an implementation."""
