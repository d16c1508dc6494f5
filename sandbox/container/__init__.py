"""Sandboxes as containers of a Docker engine. See backends/docker.py."""
