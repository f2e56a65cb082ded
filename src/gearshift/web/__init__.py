"""The admin API: what an operator may ask of a running server, over HTTP. The dashboard will live here too."""

from gearshift.web.app import create_admin

__all__ = ["create_admin"]
