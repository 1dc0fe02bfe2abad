"""Methods side by side on one problem: losses, costs, and how much depends on a constant."""
