"""What Web Push asks of a sender: subscriptions, encryption, identification, and how answers are read."""
