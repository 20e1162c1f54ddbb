"""Outbound rule: an author gets nothing through another's question.

An agent or flow that may call out, and looks where its author may not read, tells no host anything
without the asker's consent or an administrator's approval, whatever path the question came by.
Authors are the owner and each editor group: all of them must be able to read what is looked into.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from agents import models
from rag.core.access import Scope
from rag.core.errors import ConflictError, ForbiddenError
from rag.services.access import scope_of
from rag.services.stores import stores_hidden_from

Author = models.Agent | models.Flow


@dataclass(frozen=True, slots=True)
class Exposure:
    """What an agent or flow could tell whom: ``stores`` are those that an author may not read.

    ``is_granted`` says that all of it was consented to or approved.
    """

    hosts: frozenset[str] = frozenset()
    stores: Sequence[Any] = ()
    is_granted: bool = True

    @property
    def marked_hosts(self) -> list[str]:
        """Return the hosts that people are told of, in order; none where nothing is at stake."""
        return sorted(self.hosts) if self.stores else []


def exposure_of(
    *,
    subject: Author,
    authors: Collection[Author],
    hosts: frozenset[str],
    scope: Scope,
    store_ids: Collection[int] | None,
    chunk_ids: Collection[int] = (),
) -> Exposure:
    """Return what ``subject`` could tell ``hosts`` of what ``scope`` may read.

    ``store_ids`` are the stores it looks into, None all; ``chunk_ids`` what its model is shown
    besides, from earlier answers and memories.
    """
    if not hosts:
        return Exposure()
    others = [one for author in authors for one in _author_scopes(author)]
    stores = stores_hidden_from(scope=scope, others=others, ids=store_ids, chunk_ids=chunk_ids)
    ids = {store.pk for store in stores}
    # Commands act for whoever has the installation's shell, and may approve it as well.
    is_command = scope.is_operator and scope.user_id is None
    is_granted = not ids or is_command or ids <= _granted(subject, hosts, scope)
    return Exposure(hosts, stores, is_granted)


def check_exposure(*, subject: Author, exposure: Exposure) -> None:
    """Raise ForbiddenError (code ``consent_required``) unless all of it is granted."""
    if exposure.is_granted:
        return
    error = ForbiddenError(
        "“{name}” may send what it reads to {hosts}, and its author may not read: {stores}.",
        hint="Consent to it for your questions, or ask an administrator to approve it.",
        name=subject.name,
        kind="agent" if isinstance(subject, models.Agent) else "flow",
        hosts=", ".join(sorted(exposure.hosts)),
        stores=", ".join(store.slug for store in exposure.stores[:20]),
    )
    error.code = "consent_required"
    raise error


def grant_consent(
    *, subject: Author, exposure: Exposure, hosts: Collection[str], scope: Scope
) -> models.OutboundGrant:
    """Keep that ``scope``'s user lets ``subject`` tell ``hosts`` what these stores say to them.

    Raises ConflictError where it may call other hosts by now, ForbiddenError to somebody unknown
    and to a key that is limited to some stores.
    """
    if scope.user_id is None or scope.only_store_ids is not None:
        raise ForbiddenError("Only a person can consent, for what they may read.", hint="Sign in.")
    if set(hosts) != exposure.hosts:
        raise ConflictError(
            "“{name}” calls other hosts than those.",
            hint="It calls: {hosts}.",
            name=subject.name,
            hosts=", ".join(sorted(exposure.hosts)) or "–",
        )
    grant, _ = models.OutboundGrant.objects.update_or_create(
        **_place(subject),
        user_id=scope.user_id,
        defaults={"hosts": sorted(exposure.hosts), "granted_by_id": scope.user_id},
    )
    grant.stores.set([store.pk for store in exposure.stores])
    return grant


def withdraw_consent(*, subject: Author, scope: Scope) -> None:
    """Forget a person's consent; answers that are being written are not called back."""
    if scope.user_id is not None:
        mine = models.OutboundGrant.objects.filter(user_id=scope.user_id)
        mine.filter(**_place(subject)).delete()


def _place(subject: Author) -> dict[str, Any]:
    is_agent = isinstance(subject, models.Agent)
    return {
        "agent_id": subject.pk if is_agent else None,
        "flow_id": None if is_agent else subject.pk,
    }


def _granted(subject: Author, hosts: frozenset[str], scope: Scope) -> set[int]:
    rows = models.OutboundGrant.objects.filter(**_place(subject), hosts__contains=sorted(hosts))
    mine = Q(user=None) if scope.user_id is None else Q(user=None) | Q(user_id=scope.user_id)
    return set(rows.filter(mine).values_list("stores", flat=True))


def _author_scopes(author: Author) -> list[Scope]:
    groups = author.editor_groups.values_list("pk", flat=True)
    owner = scope_of(author.owner) if author.owner else Scope.anonymous()
    return [owner, *(Scope(user_id=None, group_ids=frozenset({pk})) for pk in groups)]
