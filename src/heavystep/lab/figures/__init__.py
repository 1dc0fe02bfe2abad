"""Figures of the paper: each is a definition, claims and a picture; one store and one runner."""
