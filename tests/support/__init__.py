"""Shared by the tests: a clock that they move, fakes of outside services, a server to talk to."""
