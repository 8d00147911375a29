"""Reading the history of stored sessions, and reseeding from them."""
