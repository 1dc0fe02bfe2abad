"""A results folder as one HTML page that needs no network: curves, claims, slack, commands."""
