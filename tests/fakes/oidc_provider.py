"""A real OpenID provider (authlib's, by oidc-provider-mock) on loopback, whose tokens can be forged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import flask
import jwt
import requests
from cryptography.hazmat.primitives.asymmetric import rsa
from django.test import Client
from oidc_provider_mock import app as provider_app
from werkzeug.serving import make_server

Claims = dict[str, Any]
Forge = Callable[[Claims, Any, Claims], str]


class OpenIDProvider:
    """``forge`` makes another ID token of the claims, the signing key and the header; or None."""

    def __init__(self) -> None:
        self.forge: Forge | None = None
        self.info: Callable[[Claims], Claims] | None = None
        self.app = provider_app(require_nonce=True)
        self.app.after_request(self._forged)
        self._server = make_server("127.0.0.1", 0, self.app, threaded=True)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"

    def set_person(self, sub: str, **claims: Any) -> None:
        """Let the provider know somebody, or tell of them otherwise than before."""
        requests.put(f"{self.issuer}/users/{sub}", json=claims, timeout=10).raise_for_status()

    def begin(self, client: Client, sub: str, **query: str) -> str:
        """Sign in at the provider; return the address at which it hands its answer to the site."""
        led = client.get("/accounts/sso/login/", query)
        assert led.status_code == 302, led.content
        told = requests.post(led["Location"], {"sub": sub}, allow_redirects=False, timeout=10)
        parts = urlsplit(told.headers["Location"])
        return f"{parts.path}?{parts.query}"

    def sign_in(self, client: Client, sub: str, **query: str) -> Any:
        """Sign in at the provider and come back; return the site's answer."""
        return client.get(self.begin(client, sub, **query))

    def _forged(self, response: flask.Response) -> flask.Response:
        told = response.get_json(silent=True)
        if self.forge and flask.request.path == "/oauth2/token" and "id_token" in told:
            options = {"verify_signature": False}
            claims = jwt.decode(told["id_token"], options=options)
            header = jwt.get_unverified_header(told["id_token"])
            key = flask.g.oidc_provider_mock_storage.jwk.get_private_key()
            told["id_token"] = self.forge(claims, key, header)
            response.set_data(flask.json.dumps(told))
        if self.info and flask.request.path == "/userinfo":
            response.set_data(flask.json.dumps(self.info(told)))
        return response


@contextmanager
def running_provider() -> Iterator[OpenIDProvider]:
    """Run a provider while the block lasts."""
    provider = OpenIDProvider()
    server = provider._server
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


def _kid(header: Claims) -> Claims:
    return {name: header[name] for name in ("kid",) if name in header}


def changed(**values: Any) -> Forge:
    """Return a forger that signs other claims with the provider's own key; None takes one away."""

    def forge(claims: Claims, key: Any, header: Claims) -> str:
        merged = {**claims, **values}
        kept = {name: value for name, value in merged.items() if value is not None}
        return jwt.encode(kept, key, algorithm="RS256", headers=_kid(header))

    return forge


def with_foreign_key(claims: Claims, key: Any, header: Claims) -> str:
    """Sign the true claims with somebody else's key under the provider's key id."""
    foreign = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return jwt.encode(claims, foreign, algorithm="RS256", headers=_kid(header))


def unsigned(claims: Claims, key: Any, header: Claims) -> str:
    """Return the true claims without a signature."""
    return jwt.encode(claims, None, algorithm="none", headers=_kid(header))
