"""For tests of other programs: control of a server in test mode, a fake node, a server in a process."""
