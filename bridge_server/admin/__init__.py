"""The admin API: management of projects over HTTP, with the operator's bearer token."""
