"""Excel workbook parts ([ECMA-376] 18): sheets, shared strings and the number formats of cells."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

from rag.stages.parse.raised import raise_figures
from rag.stages.parse.relationships import main_part, read_relationships

# Those that a file names by number alone. What 14 and 22 look like depends on who reads them: a
# date in the order of ISO 8601 is the same to everybody.
_BUILT_IN = {
    1: "0",
    2: "0.00",
    3: "#,##0",
    4: "#,##0.00",
    5: '"$"#,##0_);("$"#,##0)',
    6: '"$"#,##0_);("$"#,##0)',
    7: '"$"#,##0.00_);("$"#,##0.00)',
    8: '"$"#,##0.00_);("$"#,##0.00)',
    9: "0%",
    10: "0.00%",
    11: "0.00E+00",
    12: "# ?/?",
    13: "# ??/??",
    14: "yyyy-mm-dd",
    15: "d-mmm-yy",
    16: "d-mmm",
    17: "mmm-yy",
    18: "h:mm AM/PM",
    19: "h:mm:ss AM/PM",
    20: "h:mm",
    21: "h:mm:ss",
    22: "yyyy-mm-dd h:mm",
    37: "#,##0_);(#,##0)",
    38: "#,##0_);(#,##0)",
    39: "#,##0.00_);(#,##0.00)",
    40: "#,##0.00_);(#,##0.00)",
    41: '#,##0_);(#,##0);"-"_)',
    42: '"$"#,##0_);("$"#,##0);"-"_)',
    43: '#,##0.00_);(#,##0.00);"-"_)',
    44: '"$"#,##0.00_);("$"#,##0.00);"-"_)',
    45: "mm:ss",
    46: "[h]:mm:ss",
    47: "mm:ss.0",
    48: "##0.0E+0",
    49: "@",
    # Those of Chinese and Japanese systems.
    **dict.fromkeys((27, 36, 50, 52, 57), 'yyyy"年"m"月"'),
    **dict.fromkeys((28, 29, 51, 53, 54, 58), 'm"月"d"日"'),
    30: "m-d-yy",
    31: 'yyyy"年"m"月"d"日"',
    32: 'h"时"mm"分"',
    33: 'h"时"mm"分"ss"秒"',
    34: '上午/下午h"时"mm"分"',
    35: '上午/下午h"时"mm"分"ss"秒"',
    55: '上午/下午h"时"mm"分"',
    56: '上午/下午h"时"mm"分"ss"秒"',
}


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet's name, the member that holds its cells, and the one that holds its comments."""

    name: str
    member: str
    comments: str
    is_hidden: bool


@dataclass(frozen=True, slots=True)
class Workbook:
    """What the sheets of a file share; ``formats`` are the codes of its cell styles."""

    sheets: tuple[Sheet, ...]
    strings: tuple[str, ...]
    formats: tuple[str, ...]
    is_1904: bool
    title: str


def read_workbook(bundle: zipfile.ZipFile) -> Workbook:
    """Return the workbook; raises LookupError, ValueError or ParseError when it is malformed."""
    main = main_part(bundle, "xl/workbook.xml")
    root = ElementTree.fromstring(bundle.read(main))
    links = read_relationships(bundle, main)
    members = {link.kind: link.member for link in links.values()}
    sheets = []
    for item in root.iterfind("{*}sheets/{*}sheet"):
        which = next((v for key, v in item.attrib.items() if key.endswith("}id")), "")
        if which in links and links[which].kind == "worksheet":
            name, member = item.get("name", ""), links[which].member
            is_hidden = item.get("state", "visible") != "visible"
            sheets.append(Sheet(name, member, _comments(bundle, member), is_hidden))
    properties = root.find("{*}workbookPr")
    return Workbook(
        tuple(sheets),
        tuple(_strings(bundle, members.get("sharedStrings", ""))),
        tuple(_formats(bundle, members.get("styles", ""))),
        properties is not None and properties.get("date1904") in ("1", "true"),
        _title(bundle),
    )


def rich_text(item: ElementTree.Element) -> str:
    """Return the text of a string's runs, with raised and lowered figures, without its reading."""
    parts: list[str] = []
    for child in item:
        tag = child.tag.rpartition("}")[2]
        if tag == "t":
            parts.append(child.text or "")
        elif tag == "r":
            text = "".join(part.text or "" for part in child.iterfind("{*}t"))
            align = child.find("{*}rPr/{*}vertAlign")
            parts.append(raise_figures(text, "" if align is None else align.get("val", "")))
    return "".join(parts)


def _comments(bundle: zipfile.ZipFile, member: str) -> str:
    links = read_relationships(bundle, member).values()
    found = (link.member for link in links if link.kind == "comments")
    return next((name for name in found if name in bundle.NameToInfo), "")


def _strings(bundle: zipfile.ZipFile, member: str) -> Iterator[str]:
    if member not in bundle.NameToInfo:
        return
    with bundle.open(member) as part:
        for _, item in ElementTree.iterparse(part):
            if item.tag.endswith("}si"):
                yield rich_text(item)
                item.clear()


def _formats(bundle: zipfile.ZipFile, member: str) -> Iterator[str]:
    if member not in bundle.NameToInfo:
        return
    root = ElementTree.fromstring(bundle.read(member))
    own = {
        item.get("numFmtId", ""): item.get("formatCode", "")
        for item in root.iterfind("{*}numFmts/{*}numFmt")
    }
    for style in root.iterfind("{*}cellXfs/{*}xf"):
        which = style.get("numFmtId", "0")
        code = own.get(which) or _BUILT_IN.get(int(which) if which.isdecimal() else 0, "")
        yield "" if code.lower() == "general" else code


def _title(bundle: zipfile.ZipFile) -> str:
    if "docProps/core.xml" not in bundle.NameToInfo:
        return ""
    root = ElementTree.fromstring(bundle.read("docProps/core.xml"))
    found = root.find("{*}title")
    return (found.text or "") if found is not None else ""
