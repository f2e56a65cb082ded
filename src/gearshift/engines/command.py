"""``command`` engines: any OpenAI-compatible server, started by the user's own command or already running."""

from __future__ import annotations

from urllib.parse import urlsplit

from gearshift.domain.launch import Endpoint, LaunchSpec, StopRule
from gearshift.engines.adapter import LOOPBACK, LaunchRequest
from gearshift.engines.environment import child_environment, visible_devices
from gearshift.engines.plain_log import PlainLog

_INFLIGHT = 16  # nothing is known of the server's slots
_HTTPS = 443
_HTTP = 80


class Command:
    """The adapter for servers Gearshift knows nothing of."""

    inflight = _INFLIGHT

    def spec(self, request: LaunchRequest) -> LaunchSpec:
        variant = request.variant
        port = str(request.port)
        own = {"CUDA_VISIBLE_DEVICES": visible_devices(request.gpus), "PORT": port} if request.gpus else {"PORT": port}
        env = {name: _fill(value, port) for name, value in variant.env.items()}
        stop = tuple(_fill(word, port) for word in variant.stop) if variant.stop else None
        return LaunchSpec(
            variant=variant.id,
            argv=tuple(_fill(word, port) for word in variant.command or ()),
            env=child_environment("command", request.base_env, own, env),
            endpoint=_endpoint(request),
            served_name=str(variant.args.get("served-model-name") or variant.model),
            log=PlainLog(),
            probe=variant.probe,
            stop=StopRule(grace_s=variant.timing.stop_grace_s, command=stop),
            timing=variant.timing,
            health_path=None,
            owns_process=variant.upstream is None and stop is None,
            devices=request.placement.devices,
            metrics_path=None,
        )


def _fill(word: str, port: str) -> str:
    return word.replace("${port}", port)


def _endpoint(request: LaunchRequest) -> Endpoint:
    """The fixed upstream where one is named, else the port we picked on this host."""
    if request.variant.upstream is None:
        return request.endpoint
    base = _fill(request.variant.upstream, str(request.port)).rstrip("/")
    parts = urlsplit(base)
    return Endpoint(base, parts.hostname or LOOPBACK, parts.port or (_HTTPS if parts.scheme == "https" else _HTTP))
