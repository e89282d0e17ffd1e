"""A picture from an address on the web, without letting an address reach into the private network.

A name is resolved once, every address it resolves to must be public, and the connection goes to an
address that was checked: a second look-up, which could answer differently, never happens. Each
redirect is a new address and is checked in the same way.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote, urljoin, urlsplit

from photon import PictureError, PictureLimits

MAX_URL_LENGTH = 2048
MAX_REDIRECTS = 3
DEADLINE_S = 15.0
STEP_S = 5.0  # for connecting and for each read
CHUNK = 65_536
PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Resolve = Callable[[str, int], list[str]]


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, in the system's order."""
    return [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def is_public(address: str) -> bool:
    """Whether an address is on the public internet, also looking inside IPv6 forms that carry IPv4."""
    ip = ipaddress.ip_address(address.split("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_unspecified or ip.is_loopback)


@dataclass(frozen=True)
class Fetched:
    """A file from the web and the name that its address gives it."""

    data: bytes
    name: str


@dataclass(frozen=True)
class Fetcher:
    """Blocking; call it in a thread. `resolve` and `allowed` are seams for tests."""

    limits: PictureLimits
    resolve: Resolve = resolve
    allowed: Callable[[str], bool] = is_public
    ports: frozenset[int] = frozenset(PORTS.values())

    def fetch(self, url: str) -> Fetched:
        """The file at a web address. Raises PictureError with one sentence."""
        deadline = time.monotonic() + DEADLINE_S
        for _ in range(MAX_REDIRECTS + 1):
            connection, target = self._connect(url)
            try:
                headers = {"Accept": "image/*", "Accept-Encoding": "identity", "User-Agent": "photon-demo"}
                connection.request("GET", target, headers=headers)
                response = connection.getresponse()
                if response.status in (301, 302, 303, 307, 308):
                    url = urljoin(url, response.headers.get("Location", ""))
                    continue
                if response.status != 200:
                    raise PictureError(f"The address answered with status {response.status}, not with a picture.")
                return Fetched(self._read(response, deadline), file_name(url))
            except (OSError, http.client.HTTPException, ValueError) as error:
                if isinstance(error, PictureError):
                    raise
                raise PictureError("The address did not answer in time or not as the web does.") from None
            finally:
                connection.close()
        raise PictureError(f"The address redirects more than {MAX_REDIRECTS} times.")

    def _connect(self, url: str) -> tuple[http.client.HTTPConnection, str]:
        """A connection to a checked address of the URL's host, and what to ask it for."""
        if len(url) > MAX_URL_LENGTH:
            raise PictureError(f"The address is longer than {MAX_URL_LENGTH} characters.")
        try:
            parts = urlsplit(url.strip())
            host, scheme = parts.hostname or "", parts.scheme.lower()
            port = parts.port or PORTS.get(scheme, 0)
            host.encode("idna")
        except ValueError:
            raise PictureError("This is not a web address.") from None
        if scheme not in PORTS or not host:
            raise PictureError("Only addresses that begin with http:// or https:// can be read.")
        if parts.username is not None or port not in self.ports:
            raise PictureError("Addresses with a user name or an unusual port are not read.")
        try:
            addresses = self.resolve(host, port)
        except (OSError, UnicodeError):
            addresses = []
        if not addresses:
            raise PictureError(f"The host {host[:100]} was not found.")
        if not all(self.allowed(address) for address in addresses):
            raise PictureError("This address leads into a private network and is not read.")
        kind = _SecureConnection if scheme == "https" else _Connection
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return kind(host, port, addresses[0]), _quoted(target)

    def _read(self, response: http.client.HTTPResponse, deadline: float) -> bytes:
        """The body, at most as long as the limits and the deadline allow."""
        announced = response.headers.get("Content-Length", "")
        if announced.isdigit():
            self.limits.check_bytes(max(int(announced), 1))
        data = bytearray()
        while chunk := response.read1(CHUNK):
            data += chunk
            self.limits.check_bytes(len(data))
            if time.monotonic() > deadline:
                raise PictureError(f"The picture did not arrive within {DEADLINE_S:g} seconds.")
        return bytes(data)


class _Connection(http.client.HTTPConnection):
    """HTTP to a fixed address, with the name only in the Host header."""

    def __init__(self, host: str, port: int, address: str) -> None:
        super().__init__(host, port, timeout=STEP_S)
        self.address = address

    def connect(self) -> None:
        self.sock = socket.create_connection((self.address, self.port), self.timeout)


class _SecureConnection(_Connection):
    """HTTPS to a fixed address; the certificate must be that of the name."""

    def connect(self) -> None:
        super().connect()
        self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)


def _quoted(target: str) -> str:
    """A request target of printable ASCII: other characters in percent form, as browsers send them."""
    return "".join(c if "!" <= c <= "~" else "".join(f"%{b:02X}" for b in c.encode()) for c in target)


def file_name(url: str) -> str:
    """The last part of an address's path, for people."""
    return unquote(PurePosixPath(urlsplit(url).path).name)[:200] or "picture"
