"""Repositories in, verified rows out: a plain library that knows neither Dagster nor torch."""
