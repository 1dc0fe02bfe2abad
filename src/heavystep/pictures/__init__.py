"""Pictures of a run of one's own."""
