"""Every knob: typed, documented, and where its value came from."""
