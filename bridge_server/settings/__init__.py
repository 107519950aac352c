"""Every setting: typed, documented, and with the source of its value."""
