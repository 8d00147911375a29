"""Sessions in a PostgreSQL database, for agents on many machines."""
