"""Model files: headers as facts, revisions on the hub, hashes, chat templates. Reads no weights."""

from gearshift.artifacts.checkpoint import checkpoint_files
from gearshift.artifacts.facts import ModelFacts, MtpFacts, Rope
from gearshift.artifacts.gguf_facts import gguf_parts
from gearshift.artifacts.hashes import Promise, difference, sha256_of
from gearshift.artifacts.http_source import is_address, read_remote_gguf, shown
from gearshift.artifacts.hub import PARTIAL, Hub, HubFile, HubRevision
from gearshift.artifacts.hub_cache import cached_snapshot, hub_cache_folder, repository_folder
from gearshift.artifacts.json_file import read_json
from gearshift.artifacts.model import read_model
from gearshift.artifacts.templates import Rendering, Template, model_template, read_template, template_files
from gearshift.artifacts.templates_patch import apply_patch, make_patch

__all__ = [
    "PARTIAL",
    "Hub",
    "HubFile",
    "HubRevision",
    "ModelFacts",
    "MtpFacts",
    "Promise",
    "Rendering",
    "Rope",
    "Template",
    "apply_patch",
    "cached_snapshot",
    "checkpoint_files",
    "difference",
    "gguf_parts",
    "hub_cache_folder",
    "is_address",
    "make_patch",
    "model_template",
    "read_json",
    "read_model",
    "read_remote_gguf",
    "read_template",
    "repository_folder",
    "sha256_of",
    "shown",
    "template_files",
]
