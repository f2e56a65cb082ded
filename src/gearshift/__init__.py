"""One OpenAI-compatible endpoint for every way you can run a model on your own GPUs."""

__version__ = "0.1.0"
