"""The inbox of an account (A): sign-in with Ethereum, subscriptions, notifications, streams, devices."""
