"""One module per domain, each with a `PACK`; what a pack is, is in pipeline/generators/drafts.py."""
