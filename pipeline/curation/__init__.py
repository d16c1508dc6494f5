"""Keeps a data set clean: near copies, contamination, secrets, licences."""
