"""The statements of the console's store."""

INSERT_LINK = "INSERT INTO console_links (digest, expires_at_ms) VALUES (?, ?)"
LINK = "SELECT 1 FROM console_links WHERE digest = ? AND expires_at_ms > ?"
USE_LINK = "DELETE FROM console_links WHERE digest = ? AND expires_at_ms > ?"
INSERT_SESSION = "INSERT INTO console_sessions (digest, expires_at_ms) VALUES (?, ?)"
SESSION = "SELECT expires_at_ms FROM console_sessions WHERE digest = ? AND expires_at_ms > ?"
END_SESSION = "DELETE FROM console_sessions WHERE digest = ?"
END_SESSIONS = "DELETE FROM console_sessions"
END_LINKS = "DELETE FROM console_links"
SWEEPS = (
    """
    DELETE FROM console_links WHERE digest IN
        (SELECT digest FROM console_links WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
    """,
    """
    DELETE FROM console_sessions WHERE digest IN
        (SELECT digest FROM console_sessions WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
    """,
)
