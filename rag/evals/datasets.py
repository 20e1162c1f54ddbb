"""Evaluation data sets: reads a folder with corpus.jsonl, queries.jsonl and qrels.tsv (BEIR)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rag.core.errors import InvalidInputError

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels.tsv"
MAX_GRADE = 100


@dataclass(frozen=True, slots=True)
class Dataset:
    """Documents, queries and who answers what.

    ``documents`` maps an id to title and text in one string, ``queries`` an id to a question,
    ``judgements`` a query's id to its documents' grades. All keep the order of the files.
    ``corpus`` names the documents alone, ``name`` documents and queries.
    """

    corpus: str
    name: str
    documents: Mapping[str, str]
    queries: Mapping[str, str]
    judgements: Mapping[str, Mapping[str, int]]

    def limited(self, n: int | None) -> Dataset:
        """Return the dataset with its first ``n`` judged queries; the documents all stay."""
        judged = [query for query in self.queries if query in self.judgements][:n]
        return replace(
            self,
            queries={query: self.queries[query] for query in judged},
            judgements={query: self.judgements[query] for query in judged},
        )


def read_dataset(folder: Path, *, query_folder: Path | None = None) -> Dataset:
    """Return the dataset of ``folder``, with the queries of ``query_folder`` when it is given.

    Another folder's queries need ids that the judgements of ``folder`` know. Raises
    InvalidInputError naming file and line of whatever cannot be read.
    """
    documents: dict[str, str] = {}
    for where, row in _rows(folder / CORPUS):
        text = f"{_string(row, 'title', where, default='')}\n{_string(row, 'text', where)}".strip()
        if text:
            _add(documents, _string(row, "_id", where), text, where)
    queries: dict[str, str] = {}
    for where, row in _rows((query_folder or folder) / QUERIES):
        text = _string(row, "text", where).strip()
        if text:
            _add(queries, _string(row, "_id", where), text, where)
    judgements = _judgements(folder / QRELS)
    if not queries.keys() & judgements.keys():
        raise InvalidInputError(
            "No query of {queries} is judged in {qrels}.",
            hint="Take folders whose queries share their ids.",
            queries=(query_folder or folder) / QUERIES,
            qrels=folder / QRELS,
        )
    _check_known(documents, judgements, folder)
    corpus = name = folder.resolve().name
    if query_folder and query_folder.resolve() != folder.resolve():
        name = f"{query_folder.resolve().name} on {corpus}"
    return Dataset(corpus, name, documents, queries, judgements)


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield f"{path}, line {number}", line.rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            "{path} cannot be read: {reason}",
            hint="A data folder holds {names}, all in UTF-8.",
            path=path,
            reason=error,
            names=f"{CORPUS}, {QUERIES} and {QRELS}",
        ) from error


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, line in _lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InvalidInputError(
                "{where}: no JSON: {reason}", where=where, reason=error
            ) from error
        if not isinstance(row, dict):
            raise InvalidInputError("{where}: not a JSON object.", where=where)
        yield where, row


def _string(row: Mapping[str, Any], key: str, where: str, *, default: str | None = None) -> str:
    value = row.get(key, default)
    if key == "_id" and type(value) is int:
        value = str(value)
    if not isinstance(value, str) or (key == "_id" and not value):
        raise InvalidInputError("{where}: “{key}” is no text.", where=where, key=key)
    # JSON can spell what neither UTF-8 nor a database can hold.
    return value.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")


def _add(known: dict[str, str], key: str, text: str, where: str) -> None:
    if key in known:
        raise InvalidInputError("{where}: the id {key} was used before.", where=where, key=key)
    known[key] = text


def _judgements(path: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for number, (where, line) in enumerate(_lines(path)):
        fields = line.split("\t")
        if len(fields) != 3:
            raise InvalidInputError(
                "{where}: {n} fields.",
                hint="Three are needed, parted by tabs.",
                where=where,
                n=len(fields),
            )
        query, document, grade = (field.strip() for field in fields)
        digits = grade.removeprefix("-")
        if number == 0 and not digits.isdecimal():
            continue
        if not digits.isdecimal() or int(digits) > MAX_GRADE:
            raise InvalidInputError(
                "{where}: the score “{grade}” is no whole number up to {limit}.",
                where=where,
                grade=grade,
                limit=MAX_GRADE,
            )
        found.setdefault(query, {})[document] = max(0, int(grade))
    return found


def _check_known(
    documents: Mapping[str, str], judgements: Mapping[str, Mapping[str, int]], folder: Path
) -> None:
    for query, graded in judgements.items():
        for document, grade in graded.items():
            if grade > 0 and document not in documents:
                raise InvalidInputError(
                    "{qrels} judges document {document} for query {query}, but {corpus} lacks it.",
                    qrels=folder / QRELS,
                    document=document,
                    query=query,
                    corpus=folder / CORPUS,
                )
