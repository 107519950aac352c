"""A, the notification service: an app's backend sends notifications to the accounts subscribed to it."""
