"""The data path: requests in, one engine's bytes out, stamped and otherwise untouched."""

from gearshift.gateway.app import Gateway, create_gateway
from gearshift.gateway.tally import Tally

__all__ = ["Gateway", "Tally", "create_gateway"]
