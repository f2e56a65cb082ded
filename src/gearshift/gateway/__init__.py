"""The data path: requests in, one engine's bytes out, stamped and otherwise untouched."""

from gearshift.gateway.app import Gateway, create_gateway
from gearshift.gateway.server import uvicorn_config
from gearshift.gateway.tally import Fanout, Tally

__all__ = ["Fanout", "Gateway", "Tally", "create_gateway", "uvicorn_config"]
