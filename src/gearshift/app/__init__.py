"""The composition root: the only place that knows every room."""

from gearshift.app.demo import demo
from gearshift.app.serve import serve

__all__ = ["demo", "serve"]
