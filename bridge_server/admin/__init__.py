"""The admin API: what an operator does with projects, over HTTP and for the bearer of one token."""
