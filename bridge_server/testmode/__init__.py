"""The control routes of `serve --test`: reset, clock, faults, sent messages (docs/test.md)."""
