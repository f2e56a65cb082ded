from __future__ import annotations

from typing import Any

import pytest

from gearshift.domain.settings import ApiKey, Settings
from gearshift.edge.errors import RefusedError
from gearshift.edge.gate import admit
from gearshift.edge.origin import check_host, check_origin, cors_headers, preflight

UI = Settings(cors_origins=("https://ui.example",))


def scope(method: str = "POST", **headers: str) -> dict[str, Any]:
    headers.setdefault("host", "localhost:8888")
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": method, "path": "/", "server": ("127.0.0.1", 8888), "headers": pairs}


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:1", "localhost.", "127.0.0.1:8888", "[::1]:8888", "10.1.2.3", "box.tail.example", "gpu"],
)
def test_our_own_names_and_addresses_are_answered(host: str) -> None:
    check_host(scope(host=host), Settings(host="gpu", allowed_hosts=("box.tail.example",)))


def test_names_mean_the_same_however_the_configuration_spells_them() -> None:
    settings = Settings(host="GPU", allowed_hosts=("Box.Tail.Example.",), cors_origins=("https://UI.example",))
    for host in ("gpu:8888", "GPU", "box.tail.example"):
        check_host(scope(host=host), settings)
    check_origin(scope(origin="https://ui.example"), settings)


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "evil.example:8888", "127.0.0.1.evil.example", ""]
)
def test_foreign_names_are_refused(host: str) -> None:
    with pytest.raises(RefusedError) as caught:
        check_host(scope(host=host), Settings())
    assert caught.value.status == 403


def test_a_missing_host_is_a_bad_request() -> None:
    with pytest.raises(RefusedError) as caught:
        check_host({"headers": [], "server": ("127.0.0.1", 1)}, Settings())
    assert caught.value.status == 400


def test_a_unix_socket_has_no_names_to_check() -> None:
    check_host({**scope(host="anything"), "server": ("/run/admin.sock", None)}, Settings())


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://localhost:8888"},
        {"origin": "https://ui.example"},
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "none"},
    ],
)
def test_programs_our_own_pages_and_named_pages_may_act(headers: dict[str, str]) -> None:
    check_origin(scope(**headers), UI)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_foreign_pages_may_not_act(headers: dict[str, str]) -> None:
    with pytest.raises(RefusedError) as caught:
        check_origin(scope(**headers), UI)
    assert caught.value.status == 403
    check_origin(scope("GET", **headers), UI)
    with pytest.raises(RefusedError):
        check_origin(scope("GET", **headers), UI, side_effects=True)


def test_only_a_named_page_may_read_answers() -> None:
    asked = [(b"origin", b"https://ui.example")]
    assert (b"access-control-allow-origin", b"https://ui.example") in cors_headers(asked, UI)
    assert cors_headers([(b"origin", b"https://evil.example")], UI) == []
    assert cors_headers(asked, Settings()) == []
    assert cors_headers([], UI) == []


def test_a_preflight_is_answered_for_a_named_page_only() -> None:
    ask = {"access_control_request_method": "POST", "access_control_request_headers": "x-api-key"}
    allowed = preflight(scope("OPTIONS", origin="https://ui.example", **ask), UI)
    assert allowed is not None
    assert (b"access-control-allow-headers", b"x-api-key") in allowed
    with pytest.raises(RefusedError):
        preflight(scope("OPTIONS", origin="https://evil.example", **ask), UI)
    assert preflight(scope("OPTIONS", origin="https://ui.example"), UI) is None
    assert preflight(scope("POST", origin="https://ui.example", **ask), UI) is None


def test_the_gate_checks_host_and_origin_before_the_key() -> None:
    keyed = Settings(api_keys=(ApiKey("laptop", "s3cret"),))
    for case, status in (({"host": "evil.example"}, 403), ({"origin": "https://evil.example"}, 403), ({}, 401)):
        with pytest.raises(RefusedError) as caught:
            admit(scope(**case), keyed)
        assert caught.value.status == status
    assert admit(scope(x_api_key="s3cret"), keyed).name == "laptop"
