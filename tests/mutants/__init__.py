"""Changes of the source that some test must notice: one file for each room of the package."""
