"""What publishing, the inbox and the operator share: projects, their types, and who is subscribed to them."""
