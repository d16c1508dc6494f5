"""Sandboxes under an OCI runtime, on overlays over the image layers that Docker keeps. See backends/overlay.py."""
