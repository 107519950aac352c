"""Pure rules and small mechanisms that every room shares. Nothing here knows HTTP or SQL."""
