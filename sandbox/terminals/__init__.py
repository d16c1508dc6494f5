"""Terminals: keys in, a screen out. See terminal.py."""
