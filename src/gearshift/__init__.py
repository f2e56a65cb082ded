"""One OpenAI-compatible endpoint for every way you can run a model on your own GPUs."""

from importlib.metadata import version

__version__ = version("gearshift")
