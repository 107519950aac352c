"""The server's description of itself: an OpenAPI document, made from the rows of its routes.

Each room describes its own routes (`description.py`); here they become one document. Nothing of this is
imported before somebody asks for it.
"""
