"""Checks of what a store keeps beside its logs."""
