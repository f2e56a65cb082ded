from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.domain.settings import ApiKey, Settings
from gearshift.edge.keys import Client, authenticate

KEYS = Settings(api_keys=(ApiKey("laptop", "s3cret"), ApiKey("phone", "pass:word", role="operator")))


def basic(text: str) -> bytes:
    return b"Basic " + base64.b64encode(text.encode())


def test_without_keys_everybody_is_an_anonymous_client() -> None:
    assert authenticate([], Settings()) == Client(None)
    assert authenticate([(b"authorization", b"Bearer anything")], Settings()) == Client(None)


@pytest.mark.parametrize(
    "header",
    [
        (b"authorization", b"Bearer s3cret"),
        (b"authorization", b"BEARER   s3cret "),
        (b"x-api-key", b"s3cret"),
        (b"authorization", basic("user:s3cret")),
        (b"authorization", basic(":s3cret")),
    ],
)
def test_each_form_of_a_key_is_its_holder(header: tuple[bytes, bytes]) -> None:
    assert authenticate([header], KEYS) == Client("laptop")


def test_a_basic_password_may_hold_a_colon_and_a_role_goes_with_its_key() -> None:
    assert authenticate([(b"authorization", basic("u:pass:word"))], KEYS) == Client("phone", "operator")


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"s3cret")],
        [(b"authorization", b"Bearer")],
        [(b"authorization", b"Bearer s3cret2")],
        [(b"authorization", b"Digest s3cret")],
        [(b"authorization", b"Basic s3cret")],
        [(b"authorization", basic("s3cret:user"))],
        [(b"x-api-key", b"")],
        [(b"cookie", b"s3cret")],
    ],
)
def test_credentials_in_any_other_form_authenticate_nobody(headers: list[tuple[bytes, bytes]]) -> None:
    assert authenticate(headers, KEYS) is None


@given(st.lists(st.tuples(st.sampled_from([b"authorization", b"x-api-key"]), st.binary(max_size=30)), max_size=3))
def test_no_header_can_make_it_fail(headers: list[tuple[bytes, bytes]]) -> None:
    assert authenticate(headers, KEYS) is None


def test_one_right_key_among_several_is_enough() -> None:
    headers = [(b"authorization", b"Bearer sk-placeholder"), (b"x-api-key", b"s3cret")]
    assert authenticate(headers, KEYS) == Client("laptop")
