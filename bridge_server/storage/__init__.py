"""The database engine: a narrow protocol (`database`), the SQLite driver behind it, and PostgreSQL's in a folder."""
