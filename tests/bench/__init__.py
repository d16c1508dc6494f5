"""Measures sandboxes from outside, through `sandbox.protocol` alone. Nothing here is part of the product."""
