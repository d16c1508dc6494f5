"""The ways to run a sandbox, one file each."""
