"""The `inspect` command and the HTML page that it writes."""
