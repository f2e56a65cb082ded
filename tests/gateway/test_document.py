from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.domain.variant import EngineRef, Filters, Variant
from gearshift.edge.errors import RefusedError
from gearshift.gateway.document import Document, parse
from gearshift.gateway.rewrite import rewrite, usage_is_open
from gearshift.gateway.rewrite import splice as splice_pieces

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
SPACE = st.text(" \t\n\r", max_size=3)
KEYS = st.sampled_from(["model", "stream", "a", "b", '\u00e4"\\', ""]) | TEXT


@st.composite
def objects(draw: st.DrawFn) -> tuple[bytes, list[tuple[str, Any]]]:
    """A JSON object's bytes with free white space, escapes and duplicate keys, and its members in order."""
    pairs = draw(st.lists(st.tuples(KEYS, JSON), max_size=6))
    ascii_only = draw(st.booleans())
    members = []
    for key, value in pairs:
        parts = (draw(SPACE), json.dumps(key, ensure_ascii=ascii_only), draw(SPACE), ":", draw(SPACE))
        text = json.dumps(value, ensure_ascii=ascii_only, indent=draw(st.sampled_from([None, 1])))
        members.append("".join(parts) + text + draw(SPACE))
    body = draw(SPACE) + "{" + (",".join(members) or draw(SPACE)) + "}" + draw(SPACE)
    return body.encode(), pairs


def splice(document: Document, values: dict[str, bytes], dropped: Collection[str]) -> bytes:
    return b"".join(splice_pieces(document, values, dropped))


@given(objects())
def test_every_member_is_found_with_its_exact_span(given_object: tuple[bytes, list[tuple[str, Any]]]) -> None:
    body, pairs = given_object
    members = parse(body).members
    assert [member.key for member in members] == [key for key, _ in pairs]
    assert [json.loads(body[member.value : member.end]) for member in members] == [value for _, value in pairs]
    assert all(
        json.loads(body[member.start : body.index(b":", member.start)]) == member.key
        for member in members
        if ":" not in member.key
    )


@given(objects(), JSON)
def test_a_replaced_value_changes_no_other_byte(given_object: tuple[bytes, list[tuple[str, Any]]], value: Any) -> None:
    body, pairs = given_object
    text = json.dumps(value).encode()
    edited = splice(parse(body), {"model": text}, ())
    document = parse(body)
    kept = [(m.value, m.end) for m in document.members if m.key == "model"]
    if kept:
        expected, position = b"", 0
        for start, end in kept:
            expected += body[position:start] + text
            position = end
        assert edited == expected + body[position:]
    assert json.loads(edited) == {**dict(pairs), "model": value}


@given(objects(), st.sets(KEYS, max_size=3))
def test_dropped_members_leave_a_valid_object_and_the_others_in_order(
    given_object: tuple[bytes, list[tuple[str, Any]]], dropped: set[str]
) -> None:
    body, pairs = given_object
    left = [(key, value) for key, value in pairs if key not in dropped]
    edited = splice(parse(body), {}, dropped)
    assert [key for key, _ in json.loads(edited, object_pairs_hook=list)] == [key for key, _ in left]
    assert json.loads(edited) == dict(left)


@given(objects(), st.sets(KEYS, max_size=2), st.dictionaries(KEYS, JSON, max_size=3))
def test_drops_and_values_together_mean_what_a_dict_update_means(
    given_object: tuple[bytes, list[tuple[str, Any]]], dropped: set[str], values: dict[str, Any]
) -> None:
    body, pairs = given_object
    edited = splice(parse(body), {key: json.dumps(value).encode() for key, value in values.items()}, dropped)
    expected = {key: value for key, value in pairs if key not in dropped} | values
    assert json.loads(edited) == expected


@given(objects(), st.integers(min_value=0))
def test_a_cut_document_is_refused(given_object: tuple[bytes, list[tuple[str, Any]]], cut: int) -> None:
    body = given_object[0].strip()
    with pytest.raises(RefusedError):
        parse(body[: cut % len(body)])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"a": 1,}', "trailing comma in object (byte 8)"),
        (b'{"a" 1}', "expected ':' (byte 5)"),
        (b'{"a": nul}', "invalid character (byte 7)"),
        (b'{"a": "b', "ends too early; the body has 8 bytes"),
        (b"", "ends too early; the body has 0 bytes"),
        (b'[{"model": "m"}]', "got `array`"),
        (b'"model"', "got `str`"),
        (b'{"a": 1} {', "trailing characters (byte "),
    ],
)
def test_what_is_no_json_object_is_refused_with_its_place(body: bytes, words: str) -> None:
    with pytest.raises(RefusedError) as caught:
        parse(body)
    assert words in caught.value.message
    assert caught.value.status == 400


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    with pytest.raises(RefusedError):
        parse(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


def test_duplicate_keys_in_a_large_body_are_refused() -> None:
    with pytest.raises(RefusedError) as caught:
        parse(b'{"model":"a","pad":"' + b"x" * 5_000_000 + b'","model":"b"}')
    assert caught.value.code == "duplicate_key"


@pytest.mark.parametrize("key", ['"k%d"', '"k"'])
def test_a_flood_of_members_is_refused(key: str) -> None:
    names = (key.replace("%d", str(number)) for number in range(5000))
    with pytest.raises(RefusedError) as caught:
        parse(("{" + ",".join(f"{name}:1" for name in names) + "}").encode())
    assert caught.value.code == "too_many_members"


def variant(**fields: Any) -> Variant:
    return Variant("m", "v", EngineRef("command"), **fields)


def edited(body: bytes, made: Variant | None = None, *, sampling: bool = True, ask_usage: bool = False) -> bytes:
    return b"".join(rewrite(parse(body), made or variant(), "served", sampling=sampling, ask_usage=ask_usage))


def test_only_the_model_changes_and_every_duplicate_of_it() -> None:
    body = b'{ "model" : "x",\t"model":"m", "n": 1e2, "s":"\\u00e4\xc3\xa4" }\n'
    assert edited(body) == b'{ "model" : "served",\t"model":"served", "n": 1e2, "s":"\\u00e4\xc3\xa4" }\n'


def test_an_escaped_model_key_is_the_model_key() -> None:
    assert edited(b'{"mod\\u0065l":"m"}') == b'{"mod\\u0065l":"served"}'


def test_a_body_without_a_model_is_left_as_it_is() -> None:
    assert edited(b'{"prompt":"x"}') == b'{"prompt":"x"}'
    assert edited(b'{"model":null}') == b'{"model":null}'


def test_sampling_defaults_fill_silence_only() -> None:
    made = variant(sampling={"temperature": 0.6, "top_k": 20, "min_p": 0})
    assert edited(b'{"temperature":1,"top_k":null}', made) == b'{"min_p":0,"temperature":1,"top_k":20}'


def test_sampling_defaults_stay_out_of_what_does_not_sample() -> None:
    assert edited(b'{"input":"x"}', variant(sampling={"temperature": 0.6}), sampling=False) == b'{"input":"x"}'


def test_filters_drop_first_and_force_last() -> None:
    made = variant(
        sampling={"temperature": 0.6},
        filters=Filters(drop=("temperature", "seed", "model"), force={"top_k": 5, "model": 1}),
    )
    assert json.loads(edited(b'{"model":"m","seed":1,"temperature":2,"top_k":9}', made)) == {
        "model": "served",
        "temperature": 0.6,
        "top_k": 5,
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{}", b'{"stream_options":{"include_usage":true}}'),
        (b'{"stream_options":null}', b'{"stream_options":{"include_usage":true}}'),
        (b'{"stream_options": { } }', b'{"stream_options": {"include_usage":true } }'),
        (b'{"stream_options":{"include_usage":false,"x":1}}', b'{"stream_options":{"include_usage":true,"x":1}}'),
    ],
)
def test_usage_is_asked_for_inside_the_clients_own_options(body: bytes, expected: bytes) -> None:
    assert edited(body, ask_usage=True) == expected


@pytest.mark.parametrize("options", ['{"include_usage":true}', '{"continuous_usage_stats":true}', '"odd"', "[1]"])
def test_usage_is_not_asked_for_where_that_would_change_more_than_one_chunk(options: str) -> None:
    assert not usage_is_open(parse(b'{"stream_options":%b}' % options.encode()))


def test_a_model_that_is_no_string_is_refused() -> None:
    with pytest.raises(RefusedError) as caught:
        parse(b'{"model": 3}').text("model")
    assert caught.value.param == "model"
