"""Upload page of a store: many files at once, each accepted or refused with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.csrf import csrf_exempt, csrf_protect

from rag.admin.ui.admin_page import StorePage
from rag.admin.ui.messages import error_sentence
from rag.conf import conf
from rag.core.documents import KINDS, SUFFIXES
from rag.core.errors import RAGError
from rag.services.files import CappedUploadHandler, upload_file, zip_items
from rag.stages.detect.decode import USUAL

View = Callable[..., HttpResponseBase]


class UploadPage(StorePage):
    """Accepts files for a store; answers scripts with JSON and plain forms with the page."""

    template_name = "admin/rag/store_upload.html"
    permission_required = ("rag.view_store", "rag.add_file")
    title = gettext_lazy("Upload files")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Require the right to add files to the store."""
        if self.has_permission():
            row = self.model_admin.get_queryset(request).filter(pk=kwargs["pk"]).first()
            if row is not None and not self.model_admin.may_edit(request, row):
                raise PermissionDenied
        return super().dispatch(request, *args, **kwargs)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Ingest the posted files and return the outcome of each."""
        encoding = request.POST.get("encoding", "")
        results = [
            result
            for uploaded in request.FILES.getlist("files")
            for result in self._take(uploaded, encoding)
        ]
        if "application/json" in request.headers.get("Accept", ""):
            return JsonResponse({"results": results})
        return self.render_to_response(self.get_context_data(results=results, is_posted=True))

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the page's context with the limits that it explains."""
        limit = conf().max_file_bytes
        return super().get_context_data(
            **kwargs,
            store=self.store,
            limit_bytes=limit,
            limit_mb=limit // 1024**2,
            kinds=", ".join(f".{kind}" for kind in sorted(KINDS)),
            encodings=list(USUAL.items()),
            accept=",".join([*(f".{kind}" for kind in KINDS), *SUFFIXES, ".zip"]),
        )

    def _take(self, uploaded: Any, encoding: str) -> Iterator[dict[str, Any]]:
        name = uploaded.name or ""
        try:
            bundle = zip_items(path=Path(uploaded.temporary_file_path()), name=name)
        except RAGError as error:
            yield _refused(name, error)
            return
        if bundle is None:
            yield self._ingest(name, uploaded.open, encoding)
            return
        for item in bundle:
            yield self._ingest(item.name, item.open, encoding)

    def _ingest(
        self, name: str, open_content: Callable[[], IO[bytes]], encoding: str
    ) -> dict[str, Any]:
        try:
            with open_content() as content:
                taken = upload_file(store=self.store, name=name, content=content, encoding=encoding)
        except RAGError as error:
            return _refused(name, error)
        url = reverse("admin:rag_file_change", args=[taken.file.pk])
        known = {"id": taken.file.pk, "name": name, "url": url}
        if taken.is_new:
            return {**known, "outcome": "taken", "text": _("taken, waiting for indexing")}
        text = _("These bytes are in the store already, as “{name}”; nothing was added.")
        return {**known, "outcome": "known", "text": text.format(name=taken.file.name)}


def capped_upload_view(view: View) -> View:
    """Return ``view`` with capped uploads.

    The handlers must be set before anybody reads the form, so the check for forgery comes after.
    """
    protected = csrf_protect(view)

    def capped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        request.upload_handlers = [CappedUploadHandler(request)]
        return protected(request, *args, **kwargs)

    return csrf_exempt(capped)


def _refused(name: str, error: RAGError) -> dict[str, Any]:
    return {"name": name, "outcome": "refused", "text": error_sentence(error)}
