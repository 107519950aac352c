"""The control routes of `serve --test`, for test suites: reset, clock, faults, sent messages.

The routes exist in test mode alone. Their protocol is in docs/test.md.
"""
