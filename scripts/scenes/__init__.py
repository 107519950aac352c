"""The scenes of the tour."""
