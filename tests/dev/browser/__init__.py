"""What `bridge-server dev` prints, in a real browser."""
