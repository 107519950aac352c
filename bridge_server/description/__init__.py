"""The OpenAPI document and the pages at `/docs/`, drawn from the rows of the routes on request."""
