"""What a page of another site makes a browser send is told from what this server's own page sends."""

import pytest

from service.http.same_origin import is_own_host, is_own_script

OWN = {"host": "127.0.0.1:8002", "origin": "http://127.0.0.1:8002", "content-type": "application/json"}


@pytest.mark.parametrize("host", ["127.0.0.1:8002", "[::1]:8002", "10.1.2.3", "localhost", "LOCALHOST:80", "[fe80::1]"])
def test_addresses_and_localhost_are_own(host):
    assert is_own_host(host)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8002", "", ":8002", "localhost.evil.example", "[::1", "1"]
)
def test_names_are_not_own_since_another_site_can_let_its_name_stand_for_this_address(host):
    assert not is_own_host(host)


@pytest.mark.parametrize(
    "headers",
    [
        OWN,
        OWN | {"content-type": "Application/JSON; charset=utf-8", "sec-fetch-site": "same-origin"},
        OWN | {"host": "localhost:9", "origin": "https://localhost:9"},
    ],
)
def test_own_scripts_are_known(headers):
    assert is_own_script(headers)


@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://127.0.0.1:9999"},
        {"host": "evil.example", "origin": "http://evil.example"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
    ],
)
def test_what_another_site_can_send_is_refused(changed):
    assert not is_own_script(OWN | changed)
