"""The session log as values: records, ids, damage, the tree of records and its replay."""
