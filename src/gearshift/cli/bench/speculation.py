"""`gearshift bench speculation`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from gearshift.bench.experiments import speculation
from gearshift.bench.outcome import ExperimentResult
from gearshift.bench.runner import Runner
from gearshift.cli.bench.asked import Asked, measuring, requests
from gearshift.cli.bench.place import Place
from gearshift.cli.bench.quantities import DEPTHS, LEVELS, NAMES
from gearshift.cli.bench.running import Question, ask, within_budget
from gearshift.config import load_config
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import IN_TOKENS
from gearshift.domain.variant import Variant


@click.command("speculation")
@click.option("--tokens", type=NAMES, default=("off", "1", "2", "3"), metavar="off,1,2,3",
              help="Drafted tokens; each needs a variant of the model that has them, or SETTING=VARIANT.")  # fmt: skip
@click.option("--levels", type=LEVELS, default=(1, 4), metavar="1,4", help="Streams at once.")
@click.option("--depths", type=DEPTHS, default=(512,), metavar="512,4k", help=f"Prompt lengths in tokens; {IN_TOKENS}.")
@measuring(count=requests(4))
def command(asked: Asked, tokens: tuple[str, ...], levels: tuple[int, ...], depths: tuple[int, ...]) -> None:
    """When does speculative decoding pay, and where does it break even?

    Engines take their drafts at the start, so each setting is a variant (one that `extends:` another is enough). Those
    of --model are found in the configuration; else write --tokens off=qwen:plain,2=qwen:mtp2, or name models or URLs
    of running servers in the same way. --natural-end gives the acceptance of answers that end by themselves.
    """
    names = settings_of(asked, tokens)

    async def run(place: Place, runner: Runner) -> ExperimentResult:
        bases = [replace(asked.base, setting=setting) for setting in names]
        plan = speculation.plan(bases, levels, depths)
        return await runner.run(await within_budget(asked, place, plan), speculation.conclude)

    ask(asked, Question("speculation", run, speculation.conclude, names))


def settings_of(asked: Asked, tokens: tuple[str, ...]) -> dict[str, str]:
    """What each setting means. Raises GearshiftError for one that no variant has."""
    named = {setting: name for setting, equals, name in (word.partition("=") for word in tokens) if equals}
    bare = [word for word in tokens if "=" not in word]
    if bare and asked.url is not None:
        hint = "name what has them: --tokens off=http://127.0.0.1:8001,2=http://127.0.0.1:8002"
        raise GearshiftError(f"drafts cannot be changed at {asked.url}", hint=hint)
    found = _of_model(asked, bare) if bare else {}
    return {setting: (named | found)[setting] for setting in (word.partition("=")[0] for word in tokens)}


def _of_model(asked: Asked, wanted: list[str]) -> dict[str, str]:
    by_setting = speculating(_variants(asked), asked.model)
    if missing := [setting for setting in wanted if setting not in by_setting]:
        have = ", ".join(f"{setting} ({variant})" for setting, variant in by_setting.items()) or "none"
        msg = f"no variant of {asked.model or 'the model'} drafts {', '.join(missing)}; there are: {have}"
        raise GearshiftError(msg, hint="add one that extends another, or write --tokens SETTING=VARIANT")
    return {setting: by_setting[setting] for setting in wanted}


def _variants(asked: Asked) -> Mapping[str, Variant]:
    """From the configuration that the running server has."""
    file = asked.session.admin.get("/status")["config"]
    if file is None or not Path(file).is_file():
        raise GearshiftError("the server's configuration is not here", hint="write --tokens SETTING=VARIANT")
    return load_config(Path(file), env=asked.session.env).settings.variants()


def speculating(variants: Mapping[str, Variant], name: str | None) -> dict[str, str]:
    """Variants by the tokens they draft (``off``, ``1``, ``ngram``), of the model or variant that ``name`` means.

    Several may draft as many: the one whose other settings are the named variant's, else the first, is taken.
    """
    chosen = variants.get(name or "")
    model = chosen.model if chosen else name
    same = [variant for variant in variants.values() if model in (None, variant.model)]
    if chosen is not None:
        same.sort(key=lambda variant: (variant.weights, variant.args) != (chosen.weights, chosen.args))
    found: dict[str, str] = {}
    for variant in same:
        found.setdefault(_setting(variant), variant.id)
    return found


def _setting(variant: Variant) -> str:
    if variant.speculation is None:
        return speculation.OFF
    return str(variant.speculation.tokens or variant.speculation.method)
