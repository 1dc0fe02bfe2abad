"""A rule, a line search and a momentum form that nobody needs: what adding one takes."""
