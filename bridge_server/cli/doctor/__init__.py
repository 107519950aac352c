"""`bridge-server doctor`: looks at everything that an installation needs, one file per subject."""
