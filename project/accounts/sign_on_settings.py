"""Provider of single sign-on in the form that django-allauth reads; read by the settings."""

from __future__ import annotations

from typing import Any


def sign_on_providers(
    issuer: str, client_id: str, secret: str, name: str, scopes: list[str]
) -> dict[str, Any]:
    """Return the providers: one, or none without an issuer."""
    app = {
        "provider_id": "sso",
        "name": name,
        "client_id": client_id,
        "secret": secret,
        "settings": {"server_url": issuer, "scope": scopes, "oauth_pkce_enabled": True},
    }
    provider = "project.accounts.oidc.SignOnProvider"
    return {"openid_connect": {"provider_class": provider, "APPS": [app] if issuer else []}}
