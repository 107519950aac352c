"""The parts of Web Push: subscriptions, encryption, identification, and the meaning of answers."""
