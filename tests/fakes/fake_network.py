"""Fake internet on 127.0.0.1: names and addresses for the SSRF guard.

Names are answered from a table and each connection, to whatever address, ends at a loopback server;
what was looked up and what was connected to is kept.
"""

from __future__ import annotations

import datetime
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from rag.providers.http.sockets import Network
from tests.fakes.loopback import LoopbackServer

PUBLIC = "93.184.216.34"


@dataclass
class PretendNetwork:
    """``answers`` of a name may be several lists: each look-up takes the next one, the last stays."""

    answers: dict[str, list[list[str]]] = field(default_factory=dict)
    servers: dict[str, LoopbackServer] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    looked_up: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)

    def name(self, host: str, server: LoopbackServer | None, *answers: Sequence[str]) -> None:
        """Let a name lead to addresses, by default one public one, behind which is ``server``."""
        lists = [list(one) for one in answers] or [[PUBLIC]]
        self.answers[host] = lists
        if server is not None:
            self.servers.update({address: server for one in lists for address in one})

    def as_network(self) -> Network:
        return Network(self._lookup, self._dial, self.tls)

    def _lookup(self, host: str, port: int) -> list[str]:
        self.looked_up.append(host)
        if host not in self.answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        lists = self.answers[host]
        return lists.pop(0) if len(lists) > 1 else lists[0]

    def _dial(self, sock: socket.socket, address: tuple[str, int]) -> None:
        self.dialled.append(address)
        server = self.servers.get(address[0])
        if server is None:
            raise ConnectionRefusedError(111, "Connection refused")
        sock.connect(("127.0.0.1", port_of(server)))


class TlsServer(LoopbackServer):
    """A loopback server that speaks TLS with the given certificate."""

    def __init__(self, certificate: ssl.SSLContext) -> None:
        super().__init__()
        self._http.socket = certificate.wrap_socket(
            self._http.socket, server_side=True, do_handshake_on_connect=False
        )


class Authority:
    """A certificate authority of one test run: trusted by ``trusting``, and by nobody else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Test authority")])
        built = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self._pem = built.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self._pem.decode())

    def certificate(self, *names: str, is_expired: bool = False) -> ssl.SSLContext:
        """Return a server's side for these names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "server")])
        built = self._builder(subject, key, is_expired).add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
        )
        chain, secret = self._folder / f"{names[0]}.pem", self._folder / f"{names[0]}.key"
        chain.write_bytes(built.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, secret)
        return context

    def _builder(self, subject: x509.Name, key: Any, is_expired: bool = False) -> Any:
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * day)
            .not_valid_after(now - day if is_expired else now + day)
        )


def port_of(server: LoopbackServer) -> int:
    """Return where a loopback server listens."""
    return int(server.origin.rpartition(":")[2])


def seen_names(context: ssl.SSLContext) -> list[str | None]:
    """Return a list that the names asked for in handshakes (SNI) are appended to."""
    seen: list[str | None] = []

    def note(_: Any, name: str | None, __: Any) -> None:
        seen.append(name)

    context.sni_callback = note
    return seen


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
