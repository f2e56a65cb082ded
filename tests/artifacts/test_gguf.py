"""The header walker: what it keeps, what it steps over, and what it says about files it cannot use."""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifacts import tiny_gguf
from artifacts.gguf_bytes import Entry, gguf_bytes
from gearshift.artifacts.gguf import read_gguf
from gearshift.artifacts.gguf_facts import gguf_facts, read_gguf_model, read_projector_bytes
from gearshift.artifacts.model import read_model
from gearshift.artifacts.source import MemorySource
from gearshift.domain.errors import GearshiftError

LLAMA: dict[str, Entry] = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
}
WEIGHTS = {
    "token_embd.weight": ((64, 32), 0, 8192),
    "blk.0.attn_q.weight": ((64, 64), 8, 4352),
    "blk.1.attn_q.weight": ((64, 64), 8, 4352),
    "output.weight": ((64, 32), 1, 4096),
}


def test_scalars_and_short_arrays_are_kept_by_name() -> None:
    header = read_gguf(MemorySource("m", gguf_bytes({"a": 7, "b": True, "c": "text", "d": [1, 2, 3], "e": 0.5})))
    assert header.metadata == {"a": 7, "b": True, "c": "text", "d": (1, 2, 3), "e": 0.5}
    assert header.lengths == {"d": 3}


def test_long_arrays_leave_only_their_length() -> None:
    words = [f"token {number}" for number in range(5000)]
    header = read_gguf(MemorySource("m", gguf_bytes({"words": words, "scores": [1] * 5000, "after": 9})))
    assert dict(header.metadata) == {"after": 9}
    assert header.lengths == {"words": 5000, "scores": 5000}


def test_a_vocabulary_longer_than_the_read_window_is_stepped_over() -> None:
    words = ["x" * 600 for _ in range(5000)]  # three megabytes in a window of one
    header = read_gguf(MemorySource("m", gguf_bytes({"words": words, "after": 9})))
    assert header.metadata == {"after": 9}


class CountingSource:
    """A source that only answers ranges, as a web server would, and counts what was asked."""

    name = "https://example.org/model.gguf"

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.fetched = 0

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, offset: int, count: int) -> bytes:
        self.fetched += count
        return self._data[offset : offset + count]


def test_weights_are_never_read_from_the_source() -> None:
    source = CountingSource(gguf_bytes(LLAMA, {"blk.0.w": ((4096, 4096), 1, 2 * 4096 * 4096)}))
    assert read_gguf(source).tensors[0].bytes == 2 * 4096 * 4096
    assert source.fetched <= 1 << 20


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "byte 0: the file ends inside the magic: 4 bytes expected, 0 left"),
        (b"PK\x03\x04 a zip", "begins with b'PK"),
        (b"GGUF" + struct.pack("<I", 1), "GGUF version 1 is not one of (2, 3)"),
        (b"GGUF" + struct.pack(">I", 3), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 40), "claims to be 1099511627776 bytes"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 0), "promises 1099511627776 tensors"),
        (gguf_bytes({"k": 1})[:-40], "the file ends inside"),
        (gguf_bytes({}, {"t": ((8,), 99, 8)}), "tensor t has type 99"),
        (gguf_bytes({}, {"t": ((1,) * 5, 0, 4)}), "tensor t claims 5 dimensions"),
    ],
)
def test_a_file_that_is_none_is_refused_with_the_byte_and_what_was_there(data: bytes, words: str) -> None:
    with pytest.raises(GearshiftError) as caught:
        read_gguf(MemorySource("broken.gguf", data))
    assert caught.value.message.startswith("broken.gguf: byte ")
    assert words in caught.value.message
    assert caught.value.hint


@given(st.binary(max_size=400))
def test_random_bytes_never_fail_with_anything_but_our_error(data: bytes) -> None:
    _read_or_refuse(data)
    _read_or_refuse(b"GGUF" + struct.pack("<I", 3) + data)


@given(st.integers(0, 2000), st.binary(min_size=1, max_size=12))
def test_a_damaged_header_never_fails_with_anything_but_our_error(place: int, noise: bytes) -> None:
    whole = gguf_bytes({**LLAMA, "words": ["a", "b"], "flags": [True, False]}, WEIGHTS, data=False)
    place %= len(whole)
    _read_or_refuse(whole[:place] + noise + whole[place + len(noise) :])
    _read_or_refuse(whole[:place])


NAMES = st.sampled_from([
    "block_count", "embedding_length", "attention.head_count", "attention.head_count_kv", "attention.key_length",
    "attention.sliding_window", "attention.sliding_window_pattern", "attention.shared_kv_layers", "ssm.conv_kernel",
    "ssm.inner_size", "full_attention_interval", "nextn_predict_layers", "expert_count", "attention.key_length_mla",
    "attention.recurrent_layers", "vocab_size", "shortconv.l_cache", "kda.head_dim",
])  # fmt: skip
NUMBERS = st.integers(0, 2**32 - 1) | st.integers(0, 80) | st.floats(width=32)
ENTRIES = NUMBERS | st.text(max_size=3) | st.lists(st.integers(0, 9), max_size=9) | st.booleans()


@given(st.dictionaries(NAMES, ENTRIES), st.sampled_from(["llama", "qwen35", "gemma3", "gemma3n", "nemotron_h", "phi3"]))
def test_any_hyperparameters_are_read_or_refused(keys: dict[str, Entry], family: str) -> None:
    metadata: dict[str, Entry] = {f"{family}.{name}": value for name, value in keys.items()}
    header = read_gguf(MemorySource("noise", gguf_bytes({**metadata, "general.architecture": family}, WEIGHTS)))
    with suppress(GearshiftError):
        facts = gguf_facts([header], name="noise")
        assert len(facts.layers) + len(facts.mtp_layers) == len(facts.layer_bytes) > 0


def _read_or_refuse(data: bytes) -> None:
    with suppress(GearshiftError):
        assert read_gguf(MemorySource("noise", data)).version in {2, 3}


def test_bytes_are_sorted_by_role_and_type(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(LLAMA, WEIGHTS))
    facts = read_model(path)
    assert {(group.role, group.type): group.bytes for group in facts.tensors} == {
        ("embedding", "F32"): 8192,
        ("body", "Q8_0"): 2 * 4352,
        ("head", "F16"): 4096,
    }
    assert facts.layer_bytes == (4352, 4352)
    assert not facts.tied_head


def test_a_truncated_download_is_named_with_both_ends(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    whole = gguf_bytes(LLAMA, WEIGHTS)
    path.write_bytes(whole[:-100])
    with pytest.raises(
        GearshiftError, match=f"the tensors end at byte {len(whole)}, the file at byte {len(whole) - 100}"
    ):
        read_model(path)


def test_a_file_with_metadata_alone_still_says_its_layers(tmp_path: Path) -> None:
    path = tmp_path / "vocab.gguf"
    path.write_bytes(gguf_bytes({**LLAMA, "tokenizer.ggml.tokens": ["a", "b", "c"]}))
    facts = read_model(path)
    assert not facts.weights_known
    assert facts.vocab == 3
    assert [(layer.kind, layer.kv_heads, layer.key_dim) for layer in facts.layers] == [("full", 2, 16)] * 2


def test_all_parts_of_a_split_file_are_added_up(tmp_path: Path) -> None:
    names = [f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
    (tmp_path / names[0]).write_bytes(gguf_bytes({**LLAMA, "split.count": 2}, {"blk.0.w": ((64, 64), 1, 8192)}))
    (tmp_path / names[1]).write_bytes(gguf_bytes({"split.no": 1}, {"blk.1.w": ((64, 64), 1, 8192)}))
    facts = read_model(tmp_path)
    assert facts.layer_bytes == (8192, 8192)
    assert [file.path.name for file in facts.files] == names


def test_without_its_first_part_a_split_file_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "m-00002-of-00002.gguf"
    path.write_bytes(gguf_bytes({"split.no": 1}, {"blk.1.w": ((64, 64), 1, 8192)}))
    with pytest.raises(GearshiftError, match=r"m-00001-of-00002\.gguf is not here"):
        read_gguf_model(path)


@pytest.mark.parametrize("family", ["bert", "nomic-bert-moe", "modern-bert", "gemma-embedding"])
def test_an_encoder_keeps_no_cache(tmp_path: Path, family: str) -> None:
    keys = {key.replace("llama.", f"{family}."): value for key, value in LLAMA.items()}
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes({**keys, "general.architecture": family}))
    assert not read_model(path).keeps_anything


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    (tmp_path / "m-00001-of-00002.gguf").write_bytes(gguf_bytes(LLAMA, {"blk.0.w": ((64, 64), 1, 8192)}))
    assert read_gguf_model(tmp_path / "m-00001-of-00002.gguf").missing_files == ("m-00002-of-00002.gguf",)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"llama.block_count": 0}, "llama.block_count is 0"),
        ({"llama.attention.head_count_kv": [2]}, "llama.attention.head_count_kv has 1 entries for 2 layers"),
        ({"llama.attention.head_count": 0}, "llama.attention.head_count is missing or 0"),
        ({"general.architecture": 5}, "general.architecture is missing"),
    ],
)
def test_metadata_that_makes_no_model_is_refused(tmp_path: Path, change: dict[str, Entry], words: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes({**LLAMA, **change}))
    with pytest.raises(GearshiftError, match=words):
        read_model(path)


def test_the_reference_writer_and_our_reader_agree(tmp_path: Path) -> None:
    facts = read_model(tiny_gguf.hybrid().write(tmp_path / "hybrid.gguf"))
    assert [layer.kind for layer in facts.layers] == ["recurrent", "recurrent", "recurrent", "full"]
    assert [layer.kind for layer in facts.mtp_layers] == ["full"]
    assert facts.mtp is not None
    assert facts.mtp.complete is True
    assert facts.recurrent is not None
    assert (facts.recurrent.conv_elements(), facts.recurrent.state_elements) == (3 * 256, 128 * 32)
    assert sum(facts.layer_bytes) + facts.bytes_of(("embedding", "head")) + 4 * 64 == sum(
        group.bytes for group in facts.tensors
    )


def test_a_promised_draft_head_without_its_tensors_is_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes({**LLAMA, "llama.nextn_predict_layers": 1}, WEIGHTS))
    mtp = read_model(path).mtp
    assert mtp is not None
    assert mtp.complete is False
    assert mtp.missing == ("blk.1.nextn.eh_proj.weight",)


def test_experts_are_counted_apart(tmp_path: Path) -> None:
    facts = read_model(tiny_gguf.mixture().write(tmp_path / "moe.gguf"))
    assert facts.experts is not None
    assert (facts.experts.count, facts.experts.used, facts.experts.ffn) == (4, 2, 32)
    assert facts.experts.routed_bytes == 2 * 3 * 4 * 32 * 64 * 4


def test_a_period_of_the_source_marks_sliding_layers_where_the_file_has_none(tmp_path: Path) -> None:
    facts = read_model(tiny_gguf.sliding().write(tmp_path / "swa.gguf"))
    assert [layer.kind for layer in facts.layers] == [*["sliding"] * 5, "full", "sliding"]
    assert facts.window == 256
    assert facts.tied_head


def test_a_folder_with_two_models_asks_which(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(gguf_bytes(LLAMA))
    with pytest.raises(GearshiftError, match=r"holds several models: a.gguf, b.gguf"):
        read_model(tmp_path)


def test_a_missing_file_is_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(GearshiftError, match="cannot be read: No such file"):
        read_model(tmp_path / "absent.gguf")


def test_a_projector_is_weighed_without_being_a_decoder(tmp_path: Path) -> None:
    path = tmp_path / "mmproj.gguf"
    path.write_bytes(gguf_bytes({"general.architecture": "clip"}, {"v.blk.0.attn_q.weight": ((64, 64), 1, 8192)}))
    assert read_projector_bytes(path) == 8192


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "model.gguf"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDWR)  # so that a reader would get something, and this test an end
    try:
        os.write(held, b"no model" * 100)
        with pytest.raises(GearshiftError, match="neither a file nor a folder"):
            read_model(pipe)
    finally:
        os.close(held)
