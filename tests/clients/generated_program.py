"""A program on the client that openapi-python-client makes: upload, search, ask.

Run by ``generated.py`` beside the package ``citable_client``: URL and key are its arguments.
"""
# mypy: ignore-errors

from __future__ import annotations

import sys
from io import BytesIO

from citable_client import AuthenticatedClient
from citable_client.api.files import files_create, files_list
from citable_client.api.rag import rag_answer_question, rag_retrieve_context
from citable_client.models import AskBody, RetrieveBody, UploadFormRequest
from citable_client.types import File

url, key = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=key, raise_on_unexpected_status=True)
question, stores = "How often is the pump serviced?", ["manuals"]

document = File(payload=BytesIO(b"# Tea\n\nTea is poured at four."), file_name="tea.md")
taken = files_create.sync(client=client, body=UploadFormRequest(store="manuals", files=[document]))
assert taken.results[0].outcome == "taken", taken
listed = files_list.sync(client=client, store="manuals")
assert "tea.md" in [one.name for one in listed.results], listed

found = rag_retrieve_context.sync(client=client, body=RetrieveBody(query=question, stores=stores))
assert "every 30 days" in found.hits[0]["content"], found

answer = rag_answer_question.sync(client=client, body=AskBody(query=question, stores=stores))
assert answer.citations[0]["verdict"] == "verified", answer
refused = rag_answer_question.sync(client=client, body=AskBody(query="x", stores=["nowhere"]))
assert refused.error.code == "not_found", refused
print("upload, list, search, ask and a refusal: as the document says")
