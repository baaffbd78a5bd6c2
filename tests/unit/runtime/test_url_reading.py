"""Reading an address: what is not read."""

import http.server
import ssl
import threading

import pytest
import security_kit

from barnabas.runtime import url_reading
from barnabas.runtime.url_reading import read_url


def test_a_file(tmp_path):
    file = tmp_path / "my keys.json"
    file.write_text("{}")
    assert read_url(file.as_uri()) == b"{}"


def test_too_long_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(url_reading, "SIZE_MAX", 3)
    file = tmp_path / "keys.json"
    file.write_text("long")
    with pytest.raises(OSError, match="more than 3 bytes"):
        read_url(file.as_uri())


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "ftp://127.0.0.1/", "/etc/passwd", "data:,x"]
)
def test_other_kinds_of_addresses(url):
    with pytest.raises(OSError, match="neither https"):
        read_url(url)


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        leads_on = self.path == "/elsewhere"
        self.send_response(302 if leads_on else 200)
        if leads_on:
            self.send_header("Location", "https://127.0.0.1:1/keys")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        """Be quiet."""


@pytest.fixture
def site(tmp_path, monkeypatch):
    files = security_kit.make_certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server)
    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_https(site):
    assert read_url(f"{site}/keys") == b"{}"


def test_no_redirection_is_followed(site):
    with pytest.raises(OSError, match="leads elsewhere"):
        read_url(f"{site}/elsewhere")


def test_a_site_that_nobody_vouches_for(site, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(OSError, match="certificate"):
        read_url(f"{site}/keys")
