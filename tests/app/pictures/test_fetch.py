"""app.pictures.fetch: public addresses only, checked once and connected to; limits on size, time and redirects."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from app.pictures import fetch
from app.pictures.fetch import Fetcher, file_name, is_public
from photon import PictureError, PictureLimits, PictureTooLargeError


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("127.8.9.1", False),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("192.0.2.1", False),
        ("198.18.0.1", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::a00:1", False),
        ("2002:7f00:1::", False),
        ("2002:c0a8:101::", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "begin with http"),
        ("picture.png", "begin with http"),
        ("file:///etc/passwd", "begin with http"),
        ("ftp://host/a.png", "begin with http"),
        ("gopher://host/", "begin with http"),
        ("data:image/png;base64,AA", "begin with http"),
        ("http://", "begin with http"),
        ("http://user:secret@host/a.png", "user name"),
        ("http://host:22/", "unusual port"),
        ("http://host:99999/", "not a web address"),
        ("http://[::1/", "not a web address"),
        ("http://host/" + "a" * 2048, "longer than 2048"),
    ],
)
def test_what_is_not_a_web_address_is_refused(url: str, words: str) -> None:
    def never(host: str, port: int) -> list[str]:
        raise AssertionError("looked up a name that must be refused")

    with pytest.raises(PictureError, match=words):
        Fetcher(PictureLimits(), resolve=never).fetch(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://0/",
    ],
)
def test_every_spelling_of_a_private_address_is_refused(url: str) -> None:
    with pytest.raises(PictureError, match=r"private network|was not found"):
        Fetcher(PictureLimits()).fetch(url)


def test_one_private_address_among_several_is_enough_to_refuse() -> None:
    fetcher = Fetcher(PictureLimits(), resolve=lambda host, port: ["93.184.216.34", "10.0.0.1"])
    with pytest.raises(PictureError, match="private network"):
        fetcher.fetch("http://rebinding.example/a.png")


def test_an_unknown_host_is_said() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror

    with pytest.raises(PictureError, match=r"nowhere\.example was not found"):
        Fetcher(PictureLimits(), resolve=unknown).fetch("http://nowhere.example/a.png")


class Site(BaseHTTPRequestHandler):
    """A small website with good and bad manners."""

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path == "/picture%20one.png":
            self._send(200, b"pixels", Host=self.headers["Host"])
        elif path == "/moved":
            self._send(302, b"", Location="/picture%20one.png")
        elif path == "/loop":
            self._send(302, b"", Location="/loop")
        elif path == "/inside":
            self._send(302, b"", Location="http://private.example/secret")
        elif path == "/large":
            self._send(200, b"x" * 3000)
        elif path == "/endless":
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                for _ in range(10_000):
                    self.wfile.write(b"x" * 1000)
        else:
            self._send(404, b"")

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


@pytest.fixture
def looked_up() -> list[str]:
    return []


@pytest.fixture
def site(port: int, looked_up: list[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], fetch.Fetched]:
    """Fetch a path of the site under a public-looking name, through the same checks."""

    def resolve(host: str, _: int) -> list[str]:
        looked_up.append(host)
        return ["10.0.0.1"] if host == "private.example" else ["127.0.0.1"]

    fetcher = Fetcher(
        PictureLimits(max_mb=0.002), resolve, lambda address: address == "127.0.0.1", frozenset({port, 80})
    )
    return lambda path: fetcher.fetch(f"http://site.example:{port}{path}")


def test_a_picture_is_fetched_and_named(site: Callable[[str], fetch.Fetched], looked_up: list[str]) -> None:
    got = site("/picture one.png?size=1")
    assert (got.data, got.name) == (b"pixels", "picture one.png")
    assert looked_up == ["site.example"]


def test_a_redirect_is_followed_and_looked_up_again(site: Callable[[str], fetch.Fetched], looked_up: list[str]) -> None:
    assert site("/moved").data == b"pixels"
    assert looked_up == ["site.example", "site.example"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/inside", "private network"),
        ("/loop", "redirects more than 3 times"),
        ("/nothing", "status 404"),
        ("/large", "at most 0\\.002 MB"),
        ("/endless", "at most 0\\.002 MB"),
    ],
)
def test_bad_manners_end_in_one_sentence(site: Callable[[str], fetch.Fetched], path: str, words: str) -> None:
    with pytest.raises(PictureError, match=words):
        site(path)


def test_a_picture_that_comes_too_slowly_is_given_up(
    site: Callable[[str], fetch.Fetched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "DEADLINE_S", -1.0)
    with pytest.raises(PictureError, match="did not arrive"):
        site("/picture one.png")


def test_a_host_that_does_not_answer_is_said() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
    fetcher = Fetcher(PictureLimits(), lambda h, p: ["127.0.0.1"], lambda address: True, frozenset({port}))
    with pytest.raises(PictureError, match="did not answer"):
        fetcher.fetch(f"http://silent.example:{port}/")


def test_the_connection_goes_to_the_checked_address(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[tuple[str, int]] = []

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        reached.append(address)
        raise OSError

    monkeypatch.setattr(socket, "create_connection", connect)
    for url in ("http://a.example/x.png", "https://a.example/x.png"):
        with pytest.raises(PictureError):
            Fetcher(PictureLimits(), lambda host, port: ["93.184.216.34"]).fetch(url)
    assert reached == [("93.184.216.34", 80), ("93.184.216.34", 443)]


def test_the_error_of_a_limit_keeps_its_kind(site: Callable[[str], fetch.Fetched]) -> None:
    with pytest.raises(PictureTooLargeError):
        site("/large")


@pytest.mark.parametrize(
    ("url", "name"),
    [("http://h/a/b.png?x=1", "b.png"), ("http://h/", "picture"), ("http://h/%2e%2e/c%20d.jpg#f", "c d.jpg")],
)
def test_names_of_fetched_pictures(url: str, name: str) -> None:
    assert file_name(url) == name
