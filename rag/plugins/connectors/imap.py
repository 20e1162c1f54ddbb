"""Connector ``imap``: the messages of a mailbox, read only; what is deleted there goes here too."""

from __future__ import annotations

import imaplib
import io
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from functools import partial
from typing import IO, Any

from django.utils.translation import gettext_noop

from rag.core.connectors import ConnectorContext, OriginDocument
from rag.core.errors import InvalidInputError, LimitError, NotFoundError, ProviderError, RAGError
from rag.core.options import option
from rag.core.plugins import register

CALL_S, AT_ONCE = 60.0, 200
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}|\[?[0-9a-fA-F:]+\]?")
_FACTS_ASKED = "(UID RFC822.SIZE BODY.PEEK[HEADER.FIELDS (SUBJECT)])"
_FACTS = re.compile(rb"UID (\d+).*?RFC822\.SIZE (\d+)|RFC822\.SIZE (\d+).*?UID (\d+)", re.S)


@register("connector")
class ImapConnector:
    """The messages of a mailbox, each a document with its attachments."""

    name = "imap"
    label = gettext_noop("Mailbox (IMAP)")

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """Which mailbox of which account, and which of its messages."""

        host: str = option(help="Name of the IMAP server.")
        port: int = option(993, help="Its port.", minimum=1, maximum=65535)
        uses_tls: bool = option(True, help="Speak TLS from the first byte on.")
        user: str = option(help="User name of the account.")
        secret: str = option(help="Name of the secret: the password.", is_secret=True)
        mailbox: str = option("INBOX", help="Name of the mailbox.")
        days: int = option(
            0, help="Only messages of the last days; 0: all.", minimum=0, maximum=36_500
        )
        max_message_mb: int = option(
            25, help="Larger messages are passed over.", minimum=1, maximum=100
        )

    def __init__(self, options: Options) -> None:
        if not _HOST.fullmatch(options.host):
            raise InvalidInputError(
                "“{host}” is no name of a server.", hint="Write a name only.", host=options.host
            )
        if any(sign in options.mailbox for sign in '"\\\r\n\0'):
            raise InvalidInputError("“{name}” is no mailbox.", name=options.mailbox)
        self._options = options
        self._client: imaplib.IMAP4 | None = None
        self._validity = ""
        self.origin_name = f"{options.user}/{options.mailbox}"

    def __str__(self) -> str:
        return f"{self._options.host}/{self._options.mailbox}"

    def list(self, context: ConnectorContext) -> Iterator[OriginDocument]:
        """Yield the messages, the newest first; a message never changes, so its number is its mark.

        Larger ones are told and passed over.
        """
        client = self._opened(context)
        wanted = f"SINCE {_since(self._options.days)}" if self._options.days else "ALL"
        numbers = self._asked(lambda: client.uid("SEARCH", wanted))[0] or b""
        uids = sorted(map(int, numbers.split()), reverse=True)
        for start in range(0, len(uids), AT_ONCE):
            part = ",".join(map(str, uids[start : start + AT_ONCE]))
            for row in self._asked(partial(client.uid, "FETCH", part, _FACTS_ASKED)):
                if isinstance(row, tuple) and (document := self._document(row, context)):
                    yield document
            context.tell(min(start + AT_ONCE, len(uids)))

    def since(self, context: ConnectorContext) -> None:
        """Return None: only the list of all numbers tells what was deleted."""

    @contextmanager
    def fetch(self, document: OriginDocument, context: ConnectorContext) -> Iterator[IO[bytes]]:
        """Open one message."""
        client, uid = self._opened(context), document.mark.partition("-")[2]
        rows = self._asked(lambda: client.uid("FETCH", uid, "(BODY.PEEK[])"))
        bodies = [row[1] for row in rows if isinstance(row, tuple)]
        if not bodies:
            raise NotFoundError("The message was deleted meanwhile.")
        yield io.BytesIO(bodies[0])

    def permissions(self, document: OriginDocument) -> None:
        """Return None: a mailbox is one person's, who lets the store's readers read it."""

    def _document(
        self, row: tuple[bytes, bytes], context: ConnectorContext
    ) -> OriginDocument | None:
        found = _FACTS.search(row[0])
        if found is None:
            return None
        uid, size = int(found[1] or found[4]), int(found[2] or found[3])
        subject = message_from_bytes(row[1], policy=policy.default).get("Subject", "")
        title = " ".join(str(subject).replace("/", "∕").split())[:150] or f"message {uid}"
        path = f"{self._validity}/{uid}.eml"
        if size > self._options.max_message_mb * 1_000_000:
            reason = LimitError(
                "“{name}” is larger than {limit} MB.",
                name=title,
                limit=self._options.max_message_mb,
            )
            context.skip(path, reason)
            return None
        mark = f"{self._validity}-{uid}"
        return OriginDocument(path, size, mark, name=f"{title}.eml")

    def _opened(self, context: ConnectorContext) -> imaplib.IMAP4:
        if self._client is not None:
            return self._client
        options = self._options
        # For the check of a secret's hosts, which is about web addresses.
        url = f"https://{options.host}/"
        secret = context.secret(options.secret, url=url).strip()
        addresses = context.addresses(url)
        timeout_s = min(CALL_S, context.deadline.remaining_s)
        try:
            self._client = _client(options, addresses, timeout_s)
            self._client.login(options.user, secret)
            kind, _ = self._client.select(f'"{options.mailbox}"', readonly=True)
        except imaplib.IMAP4.error as error:
            raise self._refused(error, secret) from None
        except OSError as error:
            raise _lost(error, options.host) from error
        if kind != "OK":
            raise NotFoundError("There is no mailbox “{name}”.", name=options.mailbox)
        validity = self._client.response("UIDVALIDITY")[1]
        self._validity = validity[0].decode() if validity and validity[0] else "0"
        return self._client

    def _asked(self, call: Any) -> Sequence[Any]:
        try:
            kind, rows = call()
        except imaplib.IMAP4.error as error:
            raise self._refused(error, "") from None
        except OSError as error:
            raise _lost(error, self._options.host) from error
        if kind != "OK":
            raise self._refused(RAGError(str(rows)), "")
        found: Sequence[Any] = rows
        return found

    def _refused(self, error: Exception, secret: str) -> ProviderError:
        reason = str(error).replace(secret, "***") if secret else str(error)
        return ProviderError(
            "The mail server {host} refuses: {reason}.",
            hint="Check the user name, the secret and the mailbox.",
            host=self._options.host,
            reason=reason[:200],
        )


def _client(
    options: ImapConnector.Options, addresses: Sequence[str], timeout_s: float
) -> imaplib.IMAP4:
    """Return a client whose socket goes to a checked address, whatever the name means by then."""

    def connected() -> socket.socket:
        sock = socket.create_connection((addresses[0], options.port), timeout_s)
        if not options.uses_tls:
            return sock
        return ssl.create_default_context().wrap_socket(sock, server_hostname=options.host)

    class Client(imaplib.IMAP4):
        def _create_socket(self, timeout: float | None) -> socket.socket:
            return connected()

    return Client(options.host, options.port)


def _since(days: int) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).strftime("%d-%b-%Y")


def _lost(error: OSError, host: str) -> ProviderError:
    return ProviderError(
        "The connection to {host} failed: {reason}.",
        hint="Try again, or check the address.",
        host=host,
        reason=error.strerror or type(error).__name__,
    )
