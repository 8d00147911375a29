"""Session history for other readers: access rules, sanitising, pages and reseeding."""
