"""Reading facts out of records by code: instructions, preferences, files, tasks, commands."""
