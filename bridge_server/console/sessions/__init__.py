"""The page of sessions: living sessions, the timeline of one, a QR code of its pairing, and its end."""
