"""Adapters into other people's tools, one file each; none is loaded unless it is asked for."""
