"""/v1/models: every name a client may ask for, from settings and states alone. It never waits and never loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gearshift.domain.leasing import RESIDENT, Broker, VariantStatus
from gearshift.domain.settings import Model, Settings
from gearshift.domain.variant import Variant

_EPOCH = "1970-01-01T00:00:00Z"  # Anthropic's list wants a date; when a model was made is not known here


def model_list(settings: Settings, statuses: Sequence[VariantStatus]) -> dict[str, object]:
    """The list in OpenAI's shape, with the members that Anthropic's clients read beside them."""
    by_variant = {status.variant: status for status in statuses}
    cards = [card for model in settings.models.values() for card in _cards(model, by_variant)]
    names = [str(card["id"]) for card in cards]
    ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
    return {"object": "list", "data": cards, "has_more": False, **ends}


def model_card(name: str, broker: Broker) -> dict[str, object]:
    """One name's card: a model, ``model:variant`` or an alias. Raises UnknownModelError."""
    variant = broker.resolve(name).variant
    status = next((row for row in broker.statuses() if row.variant == variant.id), None)
    return _card(name, (), variant, status)


def _cards(model: Model, statuses: Mapping[str, VariantStatus]) -> list[dict[str, object]]:
    variants = [_card(variant.id, (), variant, statuses.get(variant.id)) for variant in model.variants]
    chosen = _stands_for(model, statuses)
    return [_card(model.name, model.aliases, chosen, statuses.get(chosen.id)), *variants]


def _stands_for(model: Model, statuses: Mapping[str, VariantStatus]) -> Variant:
    """The variant whose figures the model's own card shows: the routed one, else a resident one, else the first."""
    named = [variant for variant in model.variants if variant.name == model.route]
    resident = [v for v in model.variants if v.id in statuses and statuses[v.id].state in RESIDENT]
    return [*named, *resident, *model.variants][0]


def _card(name: str, aliases: Sequence[str], variant: Variant, status: VariantStatus | None) -> dict[str, object]:
    context = status.context if status is not None and status.context is not None else variant.context
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "gearshift",
        "type": "model",
        "display_name": name,
        "created_at": _EPOCH,
        "max_model_len": context,
        "gearshift": {
            "variant": variant.id,
            "aliases": list(aliases),
            "engine": variant.engine.kind,
            "state": status.state if status is not None else "stopped",
            "context": context,
        },
    }
