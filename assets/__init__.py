"""The Dagster face of the pipeline: thin assets, resources, schedules and the command line."""
