"""The only SQL. A narrow protocol (`database`), the SQLite driver behind it, and one store per room."""
