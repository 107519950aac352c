"""The page of test mode: ordered faults, the clock, and the reset."""
