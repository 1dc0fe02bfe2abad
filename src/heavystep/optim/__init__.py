"""The torch driver: one optimizer for every method of the registry."""
