"""What the tour shows, scene by scene."""
