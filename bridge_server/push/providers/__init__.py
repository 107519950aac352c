"""The services that bring a push to a device, each behind the same narrow interface."""
