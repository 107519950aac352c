"""Projects, their notification types and subscriptions: shared by notify, inbox and admin."""
