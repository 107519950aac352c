"""A, the notification service: an app's backend sends notifications to subscribed accounts."""
