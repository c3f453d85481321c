"""Who may look and who may change something: strangers and other pages get nothing."""

import json
import random
import socket

import pytest

from flodl.monitor.access import Access
from flodl.monitor.monitor import Monitor
from tests.flodl.monitor.streams import request, token_of

pytestmark = pytest.mark.torch


def test_a_page_of_the_internet_gets_nothing(monitor):
    url = monitor.serve()
    for host in (
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "",
    ):
        status, _, body = request(url, "/api/snapshot", Host=host)
        assert status == 403, host
        assert b"runs" not in body
    for host in ("localhost", "127.0.0.1:1", "[::1]:80", "LOCALHOST:99"):
        assert request(url, "/api/snapshot", Host=host)[0] == 200, host


def test_a_proxy_may_keep_its_name_when_it_brings_the_token(monitor):
    url = monitor.serve()
    token = token_of(url)
    outside = {"Host": "hub.example.org"}
    status, headers, _ = request(url, f"/?token={token}", **outside)
    assert status == 200
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Path" not in cookie  # the folder that the browser sees, whatever the proxy calls it
    cookie = cookie.split(";")[0]
    assert request(url, "/api/snapshot", Cookie=cookie, **outside)[0] == 200
    name = cookie.split("=")[0]
    assert request(url, "/api/snapshot", Cookie=f"{name}=x", **outside)[0] == 403
    assert request(url, "/?token=wrong", **outside)[0] == 403


def test_page_wrong_token_gets_no_cookie(monitor):
    url = monitor.serve()
    for query in ("?token=x", "?token=", "?token", f"?token={token_of(url)}x", "?token=%ff", ""):
        status, headers, body = request(url, f"/{query}")
        assert status == 200, query
        assert "Set-Cookie" not in headers, query
        assert token_of(url) not in f"{headers}{body}", query
    assert "Set-Cookie" in request(url, f"/?token={token_of(url)}")[1]


def test_a_name_of_ones_own_may_be_allowed():
    access = Access(host="127.0.0.1", hosts=("train.example",))
    assert access.may_read({"Host": "train.example:8420"}, {}) == "yes"
    assert access.may_read({"Host": "other.example"}, {}) == "wrong host"


def test_beyond_this_machine_reading_needs_the_token():
    access = Access(host="0.0.0.0")
    assert access.may_read({"Host": "192.168.1.5:80"}, {}) == "no token"
    assert access.may_read({"Host": "192.168.1.5:80"}, {"token": [access.token]}) == "yes"


def ask(url, action, **headers):
    body = json.dumps({"action": action})
    return request(url, "/api/control", "POST", body, **headers)


def test_only_who_has_the_token_changes_something(monitor):
    url = monitor.serve()
    name = monitor._server.access.cookie
    assert ask(url, "stop")[0] == 403
    assert ask(url, "stop", Cookie=f"{name}={token_of(url)}")[0] == 403
    assert ask(url, "stop", X_Flodl_Token="wrong")[0] == 403
    assert monitor.requests() == ()
    assert ask(url, "stop", X_Flodl_Token=token_of(url))[0] == 200
    assert monitor.requests() == ("stop",)
    assert monitor.requests() == ()
    status, _, body = ask(url, "format the disk", X_Flodl_Token=token_of(url))
    assert status == 400
    assert b"is not accepted (accepted: save, stop)" in body
    status, _, _ = request(url, "/api/control", "POST", "no json", X_Flodl_Token=token_of(url))
    assert status == 400


def test_each_server_has_its_own_token(monitor):
    other = Monitor(0, quiet=True, resources=False)
    assert token_of(other.serve()) != token_of(monitor.serve())
    other.finish()


def test_noise_does_no_harm(monitor):
    url = monitor.serve()
    port = int(url.split(":")[2].split("/")[0])
    generator = random.Random(3)
    for _ in range(30):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as noisy:
            noisy.sendall(generator.randbytes(generator.randint(0, 300)) + b"\r\n\r\n")
    assert request(url, "/api/snapshot")[0] == 200


def test_two_servers_of_a_machine_do_not_take_each_others_cookies():
    one, two = Access(host="127.0.0.1"), Access(host="127.0.0.1")
    both = {
        "Host": "hub.example.org",
        "Cookie": f"{one.cookie}={one.token}; {two.cookie}={two.token}",
    }
    assert [each.may_read(both, {}) for each in (one, two)] == ["yes", "yes"]
    assert one.cookie != two.cookie
