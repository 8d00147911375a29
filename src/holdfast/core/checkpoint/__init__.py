"""The state of a task, captured from the log and rendered within a size limit."""
