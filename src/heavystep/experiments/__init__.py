"""The figures: what is run, how it is kept, drawn, tabled and checked."""
