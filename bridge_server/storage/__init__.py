"""The database engine: a narrow protocol (`database`) and the SQLite driver behind it."""
