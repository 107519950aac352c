"""Sessions of the bridge: listed, shown with what happened in them, and ended by the operator."""
