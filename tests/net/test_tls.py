"""Over TLS: an untrusted certificate is a clear error, a trusted one just works."""

import hashlib
import shutil
import ssl
import subprocess

import faulty_server
import pytest

from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.net.artefact import Artefact, Patience, SilentProgress
from fdl_cli.net.download import fetch_all
from fdl_cli.net.store import Store

CONTENT = b"over tls" * 10_000
QUICK = Patience(connect_seconds=2, stall_seconds=2, backoff_seconds=0.01, tries=2)

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the keys")


@pytest.fixture
def tls_site(tmp_path, monkeypatch):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-keyout", key, "-out", certificate, "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    plain = faulty_server.ThreadingHTTPServer

    class Secure(plain):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.socket = context.wrap_socket(self.socket, server_side=True)

        def handle_error(self, request, client_address):
            """A client that does not trust us hangs up; that is the test."""

    monkeypatch.setattr(faulty_server, "ThreadingHTTPServer", Secure)
    with faulty_server.serve({"/x.bin": CONTENT}) as site:
        yield site.url.replace("http://127.0.0.1", "https://localhost"), certificate


def fetch(url, folder):
    item = Artefact(
        name="x.bin", urls=(f"{url}/x.bin",), sha256=hashlib.sha256(CONTENT).hexdigest()
    )
    return fetch_all([item], Store(folder), progress=SilentProgress(), patience=QUICK)


def test_an_untrusted_certificate_is_not_tried_again(tls_site, tmp_path):
    url, _ = tls_site
    with pytest.raises(EnvironmentLackingError) as caught:
        fetch(url, tmp_path / "cache")
    assert caught.value.error_id == "tls-untrusted"
    assert "SSL_CERT_FILE" in caught.value.hint


def test_a_certificate_named_by_the_environment_is_trusted(tls_site, tmp_path, monkeypatch):
    url, certificate = tls_site
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    (found,) = fetch(url, tmp_path / "cache")
    assert found.path.read_bytes() == CONTENT
