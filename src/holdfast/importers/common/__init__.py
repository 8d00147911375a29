"""What every importer is built from: sources, drafts, content blocks and parsing."""
