"""Notes, passages and search ranking for long-term memory."""
