"""Tokens from where the settings say, kept while they live."""

import base64
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from barnabas.client.errors import AuthenticationFailed
from barnabas.client.settings import ClientSettings
from barnabas.runtime.client_token import TokenSource


class Endpoint(HTTPServer):
    """Gives out what it is told to."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = []
        self.asked = []
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/token"

    def close(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        form = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.headers["Authorization"], form))
        code, body = self.server.answers.pop(0)
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint():
    server = Endpoint()
    yield server
    server.close()


def source(url, **more):
    return TokenSource(ClientSettings(oauth_endpoint=url, **more))


def test_a_token_is_asked_for_once_while_it_lives(endpoint):
    endpoint.answers = [(200, b'{"access_token": "a.b.c", "expires_in": 600}')]
    token = source(
        endpoint.url, oauth_client_id="me", oauth_client_secret="hush", oauth_scope="s t"
    )
    assert [token(), token()] == ["a.b.c", "a.b.c"]
    ((login, form),) = endpoint.asked
    assert base64.b64decode(login.removeprefix("Basic ")) == b"me:hush"
    assert form == b"grant_type=client_credentials&scope=s+t"


def test_a_token_that_is_over_is_asked_for_again(endpoint):
    endpoint.answers = [(200, b'{"access_token": "%d", "expires_in": 0}' % each) for each in (1, 2)]
    token = source(endpoint.url)
    assert [token(), token()] == ["1", "2"]


@pytest.mark.parametrize(
    "answer",
    [
        (401, b"no"),
        (200, b"no"),
        (200, b"[]"),
        (200, b"{}"),
        (200, b'{"access_token": 1, "expires_in": "x"}'),
    ],
)
def test_no_token(endpoint, answer):
    endpoint.answers = [answer]
    with pytest.raises(AuthenticationFailed, match="no token from http") as raised:
        source(endpoint.url, oauth_client_secret="hush")()
    assert "hush" not in str(raised.value)


def test_nobody_there(endpoint):
    with pytest.raises(AuthenticationFailed, match="no token from"):
        source("http://127.0.0.1:1/token")()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "nonsense"])
def test_only_the_web_is_asked(url):
    with pytest.raises(AuthenticationFailed, match="only http and https"):
        source(url)()


def test_code_may_give_tokens():
    assert TokenSource(ClientSettings(token_provider=lambda: "t"))() == "t"
