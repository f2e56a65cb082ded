"""`gearshift bench`: one verb a question. Nothing of a verb is imported before it is called."""

from __future__ import annotations

import click

from gearshift.cli.lazy import LazyGroup

VERBS = {
    "ladder": "What does context cost? Decode, prefill and recall at growing depth.",
    "concurrency": "How does it behave under several streams, each and in total?",
    "speculation": "When does speculative decoding pay, and where does it break even?",
    "prefix": "What does the prefix cache save, and does it really work?",
    "ab": "Is B better than A? Interleaved pairs and a verdict.",
    "swap": "How long does each swap take, and what with?",
    "saturate": "How much traffic does it take within limits of latency?",
    "bandwidth": "How fast is this box's memory? Measured once, kept for every ceiling.",
    "campaign": "Measure what a campaign file asks, resuming at the cell.",
    "import": "Read other tools' result files and check them.",
}


@click.group(
    "bench", cls=LazyGroup, package="gearshift.cli.bench", verbs=VERBS, modules={"import": "import_files"},
)  # fmt: skip
def command() -> None:
    """Measure a server honestly: depth, load, speculation, caching, swaps.

    With --url it is any OpenAI-compatible server, looked at from outside. Without, it is the running Gearshift: the
    variant is loaded and its exclusive lease is held while it is measured, so that nobody else's requests are.
    """
