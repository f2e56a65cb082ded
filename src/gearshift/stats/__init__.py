"""Statistics over measurements: pure functions, no clock, no files."""
