"""The refusal of a database that cannot be used, at the start of a server or of a command."""


class DatabaseRefusedError(Exception):
    """The database cannot be used. The text names the reason and the remedy, in one line."""
