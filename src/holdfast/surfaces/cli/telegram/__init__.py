"""`holdfast telegram`."""
