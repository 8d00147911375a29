"""Durable things: session logs, blobs, and the index that can always be rebuilt."""
