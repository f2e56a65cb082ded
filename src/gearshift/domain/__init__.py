"""Frozen values, results, errors and the small Protocols that rooms meet at; imports nothing of ours."""
