"""The admin API: what the operator sees and changes over HTTP, one module per subject."""
