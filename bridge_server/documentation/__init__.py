"""The pages at `/docs/`: operations, methods and problems of this server, and the Markdown of `docs/`.

Its modules, and the libraries that they need, are loaded when a page is asked for.
"""
