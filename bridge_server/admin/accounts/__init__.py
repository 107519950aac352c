"""One account as the operator sees it: why it did not get a notification, and what its inbox shows."""
