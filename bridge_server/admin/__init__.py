"""The admin API: what the operator sees and changes over HTTP, one folder per subject."""
