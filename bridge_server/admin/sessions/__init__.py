"""Sessions of the bridge: listed, shown with their timelines, and ended by the operator."""
