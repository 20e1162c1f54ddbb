"""House measures: how easily the code is found and how far a request travels through it.

Run ``python -m benchmarks.house`` for the table; ``--tree`` leaves out what needs a database. Tests
hold the figures: the architecture test those of the tree, ``test_house_paths.py`` the others.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("project", "rag", "agents")
# Django looks for a class of this name in each command, Python for this function in each program.
DICTATED = frozenset({"Command", "main"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of the table: the value at commit 7d2fbd6, today's, and the most that is wanted."""

    name: str
    before: float
    value: float
    most: float | None = None

    @property
    def is_reached(self) -> bool:
        """Return whether the value is at most what is wanted."""
        return self.most is None or self.value <= self.most


class Tree:
    """The modules of our packages without migrations, by path, as syntax trees."""

    def __init__(self, root: Path = ROOT) -> None:
        found = (path for package in PACKAGES for path in (root / package).rglob("*.py"))
        self._root = root
        self.files = {
            path.relative_to(root): path.read_text(encoding="utf-8")
            for path in sorted(found)
            if "migrations" not in path.parts
        }

    @cached_property
    def trees(self) -> dict[Path, ast.Module]:
        """Return each file's syntax tree."""
        return {path: ast.parse(text) for path, text in self.files.items()}

    @cached_property
    def modules(self) -> list[Path]:
        """Return the files with code: those that only describe their package are none."""
        return [path for path, tree in self.trees.items() if any(map(_is_code, tree.body))]

    @cached_property
    def folders(self) -> Counter[Path]:
        """Return the number of modules of each folder, its face apart."""
        return Counter(path.parent for path in self.modules if path.name != "__init__.py")

    @property
    def n_lines(self) -> int:
        """Return the number of lines of all files."""
        return sum(len(text.splitlines()) for text in self.files.values())

    @property
    def n_fmt_skips(self) -> int:
        """Return how many lines the formatter may not touch."""
        return sum(text.count("# fmt: skip") for text in self.files.values())

    def repeated_names(self) -> dict[str, list[str]]:
        """Return classes and public functions that two modules define, Django's models aside."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for path, tree in self.trees.items():
            if "models" not in path.parts:
                for node in _definitions(tree):
                    found[node.name].append(path.as_posix())
        return {
            name: paths for name, paths in found.items() if len(paths) > 1 and name not in DICTATED
        }

    def private_modules(self) -> list[Path]:
        """Return modules that one module beside them alone imports.

        A folder's face counts as no importer: what it names is for other folders.
        """
        importers = self._importers()
        users = {
            path: [user for user in importers[path] if user.name != "__init__.py"]
            for path in self.modules
        }
        return [p for p, found in users.items() if len(found) == 1 and found[0].parent == p.parent]

    def lonely_functions(self) -> list[Path]:
        """Return those of ``private_modules`` that are one public function."""
        public = {path: list(_definitions(self.trees[path])) for path in self.private_modules()}
        return [
            p
            for p, defined in public.items()
            if [isinstance(one, _Function) for one in defined] == [True]
        ]

    def importers_of(self, name: str) -> set[Path]:
        """Return the files that import a file of ours."""
        return self._importers()[Path(name)]

    def _importers(self) -> Mapping[Path, set[Path]]:
        named = {_dotted(path): path for path in self.files}
        importers: defaultdict[Path, set[Path]] = defaultdict(set)
        for path, tree in self.trees.items():
            for name in _imported(tree):
                module = named.get(name) or named.get(name.rpartition(".")[0])
                if module is not None and module != path:
                    importers[module].add(path)
        return importers


def _is_code(node: ast.stmt) -> bool:
    is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
    return not is_future and not isinstance(node, ast.Expr)


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _definitions(tree: ast.Module) -> Iterator[ast.ClassDef | _Function]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | _Function) and not node.name.startswith("_"):
            yield node


def measure_tree(tree: Tree) -> list[Measure]:
    """Return what can be read off the files."""
    folders = tree.folders
    n_lonely, n_private = len(tree.lonely_functions()), len(tree.private_modules())
    return [
        Measure("modules in the three packages", 872, len(tree.modules), 680),
        Measure("modules of the largest folder", 192, max(folders.values()), 22),
        Measure("modules a folder, mean", 21.6, folders.total() / len(folders), 8),
        Measure("`# fmt: skip`", 1038, tree.n_fmt_skips, 20),
        Measure("one-function files with one importer, beside them", 68, n_lonely, 25),
        Measure("files with one importer, beside them", 205, n_private),
        Measure(
            "names of classes and functions that are not unique", 56, len(tree.repeated_names()), 0
        ),
        Measure("lines of Python", 74_568, tree.n_lines, 74_567),
    ]


_CHANGE = re.compile(r"^\| ([^|]+) \| ([^|]+) \| `(\w+)` \|$", re.MULTILINE)
# What each took, and what is wanted, tests included.
_CHANGES = {
    "splitter": (5, 2),
    "parser": (6, 2),
    "embedding model": (5, 2),
    "chat model": (6, 2),
    "reranker": (12, 2),
}


def changes() -> Iterator[tuple[str, list[str], str]]:
    """Yield what may be added, the files to touch for the example, and the example."""
    for kind, cell, example in _CHANGE.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8")):
        paths = re.findall(r"`([^`]+[/.][^`]+)`", cell)
        yield kind, [path.replace("NAME", example) for path in paths], example


def measure_changes() -> list[Measure]:
    """Return how many files are touched to add a provider or a stage of another kind."""
    touched = {kind: len(paths) for kind, paths, _ in changes()}
    return [
        Measure(f"files to touch for a new {kind}", before, touched[kind], most)
        for kind, (before, most) in _CHANGES.items()
        if kind in touched
    ]


def print_measures(measures: list[Measure]) -> None:
    """Print a table of measures."""
    print(f"{'':<52}{'before':>9}{'now':>9}{'wanted':>9}")
    for one in measures:
        before, now = (f"{n:.1f}" if n % 1 else f"{n:.0f}" for n in (one.before, one.value))
        wanted = "" if one.most is None else f"≤ {one.most:.0f}"
        verdict = "" if one.is_reached else "  MISSED"
        print(f"{one.name:<52}{before:>9}{now:>9}{wanted:>9}{verdict}")


def main() -> int:
    """Print the table and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", action="store_true", help="only what needs no database")
    parser.add_argument("--paths", metavar="DATABASE", help="the paths alone, in it")
    options = parser.parse_args()
    measures = [] if options.paths else measure_tree(Tree()) + measure_changes()
    if not options.tree:
        # Sets Django up, which the measures of the tree do not need.
        from benchmarks.house_paths import measure_paths

        measures += measure_paths(options.paths)
    print_measures(measures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
