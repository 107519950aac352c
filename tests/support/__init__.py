"""What the tests share: a clock that they move, servers that stand for the outside, a server to talk to."""
