"""The reproduction: what each figure runs, how it is drawn, tabled and checked."""
