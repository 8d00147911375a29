"""The proxy's log: requests of foreign clients as sessions, and bodies that fit."""
