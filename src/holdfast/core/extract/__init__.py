"""Reading facts out of records by code: statements, files, tasks, commands."""
