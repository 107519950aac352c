"""The database engine: a narrow protocol (`database`), the SQLite driver, and a folder with PostgreSQL's."""
