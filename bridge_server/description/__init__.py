"""The server's description of itself: the OpenAPI document and the pages at `/docs/`.

The document is drawn from the rows of the routes; each room describes its own routes.
Nothing of this is imported before somebody asks for it.
"""
