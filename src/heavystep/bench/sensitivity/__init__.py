"""How much depends on the constant that a user would tune: our methods beside those of others."""
