"""The control API of a headless wallet: for test programs in any language, with a bearer token."""
