"""Honest measurement of any OpenAI-compatible URL: a black-box HTTP client, its proof, and the experiments."""
