"""The page that composes a notification and sends it for a project."""
