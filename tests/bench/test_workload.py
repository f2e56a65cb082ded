"""Prompts are of exact length, new from their first word, and made of real text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.bench.truth.tokens import Vocabulary
from gearshift.bench.workload.corpus import Kind, corpus
from gearshift.bench.workload.files import WorkloadFileError, read_prompts
from gearshift.bench.workload.needle import Needle, needles
from gearshift.bench.workload.prompts import PromptMaker
from gearshift.bench.workload.source import open_prompt_source
from gearshift.bench.workload.tokenizer import ServerTokenizer
from gearshift.domain.errors import GearshiftError

KINDS: list[Kind] = ["code", "prose", "json", "reasoning"]


class LocalServer:
    """Answers /tokenize and /detokenize by a toy vocabulary; counts what it was asked."""

    def __init__(self, *, knows: bool = True, decodes: bool = True) -> None:
        self.vocabulary = Vocabulary()
        self.knows = knows
        self.decodes = decodes
        self.asked = 0

    async def post_json(self, path: str, body: Mapping[str, object]) -> Any | None:
        self.asked += 1
        if not self.knows:
            return None
        if path == "/tokenize":
            return {"tokens": self.vocabulary.encode(str(body["content"]))}
        if not self.decodes:
            return None
        tokens = body["tokens"]
        assert isinstance(tokens, list)
        return {"content": self.vocabulary.decode(tokens)}


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
async def test_a_prompt_has_exactly_the_tokens_asked_for(kind: Kind) -> None:
    server = LocalServer()
    maker = PromptMaker(ServerTokenizer(server, "m"), kind)
    for window in range(3):
        prompt = await maker.make(333, window=window)
        assert prompt.exact
        assert len(server.vocabulary.encode(prompt.text)) == prompt.tokens == 333


@pytest.mark.anyio
@pytest.mark.parametrize("tokens", [40, 333, 5000])
async def test_a_server_that_only_counts_gets_prompts_of_that_length_all_the_same(tokens: int) -> None:
    server = LocalServer(decodes=False)
    needle = Needle("harbour", "1234567", 0.5) if tokens == 333 else None
    prompt = await PromptMaker(ServerTokenizer(server, "m")).make(tokens, needle=needle)
    assert len(server.vocabulary.encode(prompt.text)) == prompt.tokens == pytest.approx(tokens, abs=2)


@pytest.mark.anyio
async def test_prompts_differ_from_their_first_words_on() -> None:
    maker = PromptMaker(ServerTokenizer(LocalServer(), "m"))
    texts = [(await maker.make(100)).text for _ in range(20)]
    assert len({text.split(".", 1)[0] for text in texts}) == 20


@pytest.mark.anyio
async def test_a_fitted_text_is_reused_without_asking_the_server_again() -> None:
    server = LocalServer()
    maker = PromptMaker(ServerTokenizer(server, "m"))
    await maker.make(100)
    asked = server.asked
    await maker.make(100)
    assert server.asked == asked


@pytest.mark.anyio
async def test_without_a_nonce_a_prompt_is_the_same_again() -> None:
    maker = PromptMaker(ServerTokenizer(LocalServer(), "m"))
    assert await maker.make(80, nonce=False) == await maker.make(80, nonce=False)


@pytest.mark.anyio
async def test_a_needle_lies_where_it_was_put() -> None:
    maker = PromptMaker(ServerTokenizer(LocalServer(), "m"))
    (needle,) = needles([0.25], seed=3)
    prompt = await maker.make(1000, needle=needle)
    assert prompt.tokens == 1000
    assert 0.15 < prompt.text.index(needle.code) / len(prompt.text) < 0.35
    assert prompt.text.endswith(needle.question)


@pytest.mark.anyio
async def test_a_server_without_a_tokenizer_gets_a_guess() -> None:
    maker = PromptMaker(ServerTokenizer(LocalServer(knows=False), "m"))
    prompt = await maker.make(1000, needle=needles([0.5], seed=1)[0])
    assert not prompt.exact
    assert 2000 < len(prompt.text) < 6000


@pytest.mark.anyio
async def test_without_a_tokenizer_the_first_answer_corrects_the_guess() -> None:
    maker = PromptMaker(ServerTokenizer(LocalServer(knows=False), "m"))
    guessed = await maker.make(1000)
    maker.correct(1000, 2000)  # the server's usage said twice as many
    assert len((await maker.make(1000)).text) == pytest.approx(len(guessed.text) / 2, rel=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_text_is_there_and_the_same_every_time(kind: Kind) -> None:
    text = corpus(kind)
    assert len(text) > 100_000
    assert corpus(kind) is text


@given(st.integers(0, 9), st.sampled_from([", ", " ", "-", ""]))
def test_a_needle_is_found_whatever_separates_its_digits(seed: int, separator: str) -> None:
    (needle,) = needles([0.5], seed=seed)
    assert needle.found_in(f"It is {separator.join(needle.code)}.")
    assert not needle.found_in("I do not know.")


def test_needles_of_one_prompt_have_codes_and_places_of_their_own() -> None:
    found = needles([0.1, 0.5, 0.9], seed=1)
    assert len({needle.code for needle in found}) == len({needle.place for needle in found}) == 3
    assert found == needles([0.1, 0.5, 0.9], seed=1)
    assert isinstance(found[0], Needle)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"prompt": "a"}\n{"question": "b"}', [("a", ""), ("b", "")]),
        ('{"question_id": 1, "category": "coding", "turns": ["first", "second"]}', [("first", "coding")]),
        ('{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]}', [("u", "")]),
        (json.dumps([{"conversations": [{"from": "human", "value": "hi"}]}]), [("hi", "")]),
        (json.dumps([{"conversations": [{"from": "gpt", "value": "yo"}]}, "plain"]), [("plain", "")]),
        (json.dumps([{"conversations": []}, {"conversations": [5]}, "plain"]), [("plain", "")]),
        (
            json.dumps([{"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "hi"}]}]),
            [("hi", "")],
        ),
        ('\ufeff{"prompt": "a\u2028b"}\r\n\r\n{"prompt": "c"}\r\n', [("a\u2028b", ""), ("c", "")]),
    ],
)  # fmt: skip
def test_prompts_are_read_from_the_usual_files(tmp_path: Path, content: str, expected: list[tuple[str, str]]) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(content)
    assert [(prompt.text, prompt.kind) for prompt in read_prompts(path)] == expected


@pytest.mark.parametrize("content", ['{"answer": "x"}', "[]", "no json", '{"prompt": 3}'])
def test_a_file_without_prompts_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(content)
    with pytest.raises(WorkloadFileError, match=str(path)):
        read_prompts(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"prompt": "a"}\n\nnot json', "line 3 is no JSON"),
        ('{"prompt": "a"}\n{}', "line 2 has no prompt"),
        ('[{"prompt": "a"}, null]', "row 2 has no prompt"),
        ('{"conversations": "x"}', "line 1 has no prompt"),
        ('{"turns": [5]}', "line 1 has no prompt"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_a_bad_row_of_a_file_is_named_by_its_place(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(content)
    with pytest.raises(WorkloadFileError, match=said):
        read_prompts(path)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["prompt", "turns", "messages", "conversations", "from", "value", "role", "content"]),
                inner | st.sampled_from(["human", "user", "system"]),
                max_size=4,
            )
        ),
    )
)
def test_any_json_is_read_for_prompts_or_refused(tmp_path_factory: pytest.TempPathFactory, content: object) -> None:
    path = tmp_path_factory.mktemp("any") / "prompts.json"
    path.write_text(json.dumps(content))
    with suppress(WorkloadFileError):
        assert all(prompt.text for prompt in read_prompts(path))


@pytest.mark.anyio
async def test_random_ids_are_valid_new_and_as_many_as_asked() -> None:
    server = LocalServer()
    source = open_prompt_source(ServerTokenizer(server, "m"), "ids", None)
    one, other = await source.make(200), await source.make(200)
    assert len(one.ids) == 200
    assert one.ids != other.ids
    assert "unk" not in server.vocabulary.decode(list(one.ids))
    with pytest.raises(GearshiftError, match="needle"):
        await source.make(10, needle=needles([0.5], seed=1)[0])


@pytest.mark.anyio
async def test_ids_of_a_server_without_a_tokenizer_are_unknown() -> None:
    with pytest.raises(GearshiftError, match="no /tokenize"):
        await open_prompt_source(ServerTokenizer(LocalServer(knows=False), "m"), "ids", None).make(5)


@pytest.mark.anyio
async def test_prompts_of_a_file_come_in_turn_behind_a_nonce(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('"first"\n"second"\n')
    source = open_prompt_source(ServerTokenizer(LocalServer(), "m"), "file", str(path))
    found = [await source.make(0) for _ in range(3)]
    assert [prompt.text.rsplit("]\n", 1)[1] for prompt in found] == ["first", "second", "first"]
    assert found[0].text != found[2].text
    assert (await source.make(0, nonce=False)).text == "second"
    with pytest.raises(WorkloadFileError, match="need its path"):
        open_prompt_source(ServerTokenizer(LocalServer(), "m"), "file", None)
