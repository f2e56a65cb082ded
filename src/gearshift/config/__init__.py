"""`gearshift.yaml` to `Settings`: every problem at once, each with its line, and where each value came from."""

from gearshift.config.find import find_config
from gearshift.config.listen import listen_on
from gearshift.config.load import load_config, parse_config
from gearshift.config.loaded import LoadedConfig, Origin
from gearshift.config.presence import Presence, presence
from gearshift.config.schema import SCHEMA_FILE, json_schema
from gearshift.config.show import show

__all__ = [
    "SCHEMA_FILE",
    "LoadedConfig",
    "Origin",
    "Presence",
    "find_config",
    "json_schema",
    "listen_on",
    "load_config",
    "parse_config",
    "presence",
    "show",
]
