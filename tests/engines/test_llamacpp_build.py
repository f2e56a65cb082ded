from __future__ import annotations

import pytest

from gearshift.engines.llamacpp_build import build_name, build_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("llama-server (build 11434, 0123abcd)", "11434"),
        ("version: 9927 (799fcc04a)\nbuilt with GNU 12.2.0", "9927"),
        ("version: b9927 (799fcc04a)", "9927"),
        ("common_param: build 11434 (unknown) with GNU 12.2.0 for Linux x86_64", "11434"),
        ("version: 0 (unknown)", None),
        ("build 0 (unknown) with GNU 12.2.0", None),
        ("build_info: b484-2c4055912", None),
        ("", None),
    ],
)
def test_a_build_number_is_read_wherever_it_is_printed_and_0_is_none(text: str, number: str | None) -> None:
    assert build_number(text) == number


@pytest.mark.parametrize(
    ("version", "name"),
    [("11434", "b11434"), ("b11434-unknown", "b11434"), ("b11434-0123abc", "b11434-0123abc"), ("truth", "truth")],
)
def test_a_build_without_git_is_named_like_its_release(version: str, name: str) -> None:
    assert build_name(version) == name
