"""The command line against a server elsewhere: a URL, an operator's key, a proxy that does not speak our errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from click.testing import Result
from inline_snapshot import snapshot

from fakes.admin import FakeAdmin
from fakes.chat import FakeChat
from fakes.serving import serving_in_thread
from gearshift.domain.settings import ApiKey, Settings
from gearshift.web import create_admin

Gearshift = Callable[..., Result]
SETTINGS = Settings(api_keys=(ApiKey("me", "operator-key", role="operator"), ApiKey("laptop", "client-key")))


@pytest.fixture
def url() -> Iterator[str]:
    with serving_in_thread(create_admin(FakeAdmin(), lambda: SETTINGS, remote=True)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_an_operators_key_opens_a_server_elsewhere(gearshift: Gearshift, url: str) -> None:
    result = gearshift("--url", url, "ps", env={"GEARSHIFT_OPERATOR_KEY": "operator-key"})
    assert (result.exit_code, result.stdout.count("\n")) == (0, 7)


def test_the_url_may_come_from_the_environment(gearshift: Gearshift, url: str) -> None:
    env = {"GEARSHIFT_URL": url, "GEARSHIFT_OPERATOR_KEY": "operator-key"}
    assert gearshift("load", "qwen:int4", env=env).exit_code == 0


@pytest.mark.parametrize("key", ["", "wrong"])
def test_without_a_valid_key_it_is_said_where_to_put_one(gearshift: Gearshift, url: str, key: str) -> None:
    result = gearshift("--url", url, "ps", env={"GEARSHIFT_OPERATOR_KEY": key})
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == snapshot("""\
error: no valid API key (send one as Authorization: Bearer KEY or x-api-key: KEY)
hint: set GEARSHIFT_OPERATOR_KEY to an operator's key
""")


def test_a_clients_key_is_not_enough(gearshift: Gearshift, url: str) -> None:
    result = gearshift("--url", url, "ps", env={"GEARSHIFT_OPERATOR_KEY": "client-key"})
    assert (result.exit_code, "the key 'laptop' is a client's" in result.stderr) == (1, True)


def test_a_url_behind_which_nothing_is_says_so(gearshift: Gearshift) -> None:
    result = gearshift("--url", "http://127.0.0.1:9", "ps")
    assert (result.exit_code, result.stderr) == snapshot(
        (
            1,
            """\
error: no server answers at http://127.0.0.1:9: Connection refused
hint: check the URL (--url, GEARSHIFT_URL), and that the server listens on an address that can be reached
""",
        )
    )


def test_an_answer_that_is_not_ours_is_quoted(gearshift: Gearshift) -> None:
    fake = FakeChat()
    fake.refusal = (502, {"oops": "bad gateway"})
    with serving_in_thread(fake) as listener:
        result = gearshift("--url", f"http://127.0.0.1:{listener.getsockname()[1]}", "ps")
    assert (result.exit_code, result.stderr) == snapshot((1, 'error: HTTP 502 Bad Gateway: {"oops": "bad gateway"}\n'))
