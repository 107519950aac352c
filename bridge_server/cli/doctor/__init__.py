"""`bridge-server doctor`: checks everything that an installation needs, one file per subject."""
