"""/metrics: our own figures by variant, and each resident engine's under one neutral set of names.

An engine's metrics are asked for with a short deadline, only where it is resident and awake, and only the lines that
carry a wanted name are parsed: a vLLM page is long and the data path shares this loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Final, get_args

import aiohttp
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gearshift.domain.launch import MetricNames
from gearshift.domain.leasing import RESIDENT, Broker, State, Upstream, VariantStatus
from gearshift.engines.metrics_page import parse
from gearshift.gateway.engine import EngineClient, request_headers
from gearshift.gateway.tally import Histogram, Tally

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
_SCRAPE_S: Final = 1.0
_STATES: tuple[State, ...] = get_args(State)
_COUNTERS: Final = {
    "drafts": "Speculative verification steps",
    "draft_tokens": "Tokens drafted",
    "accepted_tokens": "Drafted tokens accepted",
    "accepted_per_position": "Drafted tokens accepted, by position in the draft",
    "prompt_tokens": "Prompt tokens processed, as the engine counts them",
    "generation_tokens": "Tokens generated",
    "cached_tokens": "Prompt tokens taken from a cache",
    "preemptions": "Requests preempted",
}
_GAUGES: Final = {
    "kv_usage": "Share of the KV pool in use, 0 to 1",
    "running": "Requests the engine is working on",
    "waiting": "Requests in the engine's own queue",
}

# neutral name -> position label ("" without one) -> value
EngineFigures = Mapping[str, Mapping[str, float]]


async def exposition(tally: Tally, broker: Broker, engines: EngineClient) -> bytes:
    """The whole page in Prometheus' text format."""
    statuses = broker.statuses()
    scraped = await _scrape_all(statuses, broker, engines)
    registry = CollectorRegistry()
    registry.register(_Page(tally, statuses, scraped))
    return generate_latest(registry)


class _Page(Collector):
    """Everything known at one moment; made for one answer."""

    def __init__(self, tally: Tally, statuses: Sequence[VariantStatus], scraped: Mapping[str, EngineFigures]) -> None:
        self._tally = tally
        self._statuses = statuses
        self._scraped = scraped

    def collect(self) -> Iterator[Metric]:
        yield from _histograms(self._tally)
        yield from _counters(self._tally)
        yield from _states(self._statuses)
        yield from _engine_figures(self._scraped)


def _histograms(tally: Tally) -> Iterator[Metric]:
    families: tuple[tuple[str, str, Mapping[str, Histogram]], ...] = (
        ("gearshift_queue_seconds", "Waiting for a lease, without the load", tally.queue),
        ("gearshift_load_seconds", "Waiting for the variant to load, where it had to", tally.load),
        ("gearshift_time_to_first_token_seconds", "Dispatch to first token of any kind", tally.first_token),
        ("gearshift_time_per_output_token_seconds", "(last - first token) / (tokens - 1)", tally.per_token),
        ("gearshift_request_duration_seconds", "Arrival to the end of the answer", tally.duration),
        ("gearshift_prompt_tokens", "Prompt tokens of a request", tally.tokens_in),
        ("gearshift_output_tokens", "Output tokens of a request", tally.tokens_out),
        ("gearshift_swap_seconds", "Making a variant resident, with all it stopped", tally.swap_total),
        ("gearshift_swap_overhead_seconds", "The share of a swap that is Gearshift's own", tally.swap_overhead),
    )
    for name, text, by_variant in families:
        family = HistogramMetricFamily(name, text, labels=["variant"])
        for variant, histogram in sorted(by_variant.items()):
            family.add_metric([variant], buckets=histogram.buckets(), sum_value=histogram.total)
        yield family


def _counters(tally: Tally) -> Iterator[Metric]:
    requests = CounterMetricFamily("gearshift_requests", "Finished requests", labels=["variant", "outcome"])
    for (variant, outcome), count in sorted(tally.requests.items()):
        requests.add_metric([variant, outcome], count)
    yield requests
    swaps = CounterMetricFamily("gearshift_swaps", "Swaps to a variant", labels=["variant", "result"])
    for (variant, result), count in sorted(tally.swaps.items()):
        swaps.add_metric([variant, result], count)
    yield swaps


def _states(statuses: Sequence[VariantStatus]) -> Iterator[Metric]:
    in_flight = GaugeMetricFamily("gearshift_in_flight", "Leases held", labels=["variant"])
    queued = GaugeMetricFamily("gearshift_queued", "Requests waiting for a lease", labels=["variant"])
    state = GaugeMetricFamily("gearshift_state", "1 for the state a variant is in", labels=["variant", "state"])
    for status in statuses:
        in_flight.add_metric([status.variant], status.in_flight)
        queued.add_metric([status.variant], status.queued)
        for name in _STATES:
            state.add_metric([status.variant, name], float(status.state == name))
    yield from (in_flight, queued, state)


def _engine_figures(scraped: Mapping[str, EngineFigures]) -> Iterator[Metric]:
    for key, text in {**_COUNTERS, **_GAUGES}.items():
        labels = ["variant", "position"] if key == "accepted_per_position" else ["variant"]
        kind = CounterMetricFamily if key in _COUNTERS else GaugeMetricFamily
        family = kind(f"gearshift_engine_{key}", text, labels=labels)
        for variant, figures in scraped.items():
            for position, value in figures.get(key, {}).items():
                family.add_metric([variant, position][: len(labels)], value)
        yield family


async def _scrape_all(
    statuses: Sequence[VariantStatus], broker: Broker, engines: EngineClient
) -> dict[str, EngineFigures]:
    awake = [status.variant for status in statuses if status.state in RESIDENT]
    found = [(variant, upstream) for variant in awake if (upstream := broker.peek(variant)) is not None]
    async with asyncio.TaskGroup() as group:
        tasks = {variant: group.create_task(_scrape(upstream, engines)) for variant, upstream in found}
    return {variant: task.result() for variant, task in tasks.items()}


async def _scrape(upstream: Upstream, engines: EngineClient) -> EngineFigures:
    """One engine's figures; an engine that does not answer in time has none to tell."""
    if upstream.metrics_path is None:
        return {}
    try:
        async with asyncio.timeout(_SCRAPE_S):
            response = await engines.send("GET", upstream, upstream.metrics_path, request_headers(()))
            try:
                text = (await response.read()).decode("utf-8", "replace") if response.status == HTTPStatus.OK else ""
            finally:
                response.close()
        return neutral_figures(text, upstream.metrics)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return {}


def neutral_figures(text: str, names: MetricNames) -> EngineFigures:
    """An engine's page reduced to the neutral names, summed over its other labels (engines of one server, models)."""
    wanted = {name: key for key in (*_COUNTERS, *_GAUGES) if (name := getattr(names, key)) is not None}
    figures: dict[str, dict[str, float]] = {}
    for series in parse("\n".join(_lines(text, tuple(wanted)))):
        if series.name in wanted:
            by_position = figures.setdefault(wanted[series.name], {})
            position = series.labels.get("position", "") if wanted[series.name] == "accepted_per_position" else ""
            by_position[position] = by_position.get(position, 0.0) + series.value
    return figures


def _lines(text: str, names: tuple[str, ...]) -> Iterable[str]:
    return (line for line in text.splitlines() if names and line.startswith(names))
