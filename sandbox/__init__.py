"""Runs commands in isolation. Knows no task, no model and no Dagster."""
