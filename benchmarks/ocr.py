"""OCR benchmark: letters missed on made-up scans, pages a minute and memory, beside the library.

Run ``python -m benchmarks.ocr``. Pages of known text in both languages are drawn at three
resolutions, put a little askew, with noise and the artefacts of JPEG, and read by a child process
as an upload is; then the library alone, as it comes, reads the same pictures.
"""

from __future__ import annotations

import io
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from benchmarks.record import Report
from rag.core.ocr.scans import PageWords
from rag.providers.sandbox.recognizer import SandboxedRecognizer

FONT = "/usr/share/fonts/opentype/noto/NotoSerifCJK-Regular.ttc"
SEED, POINTS, DPIS = 4711, 11, (150, 200, 300)
_ENGLISH = (
    "the committee met again in the spring to look at the figures of last year",
    "every pump is serviced by the workshop before the winter begins",
    "whoever leaves the company returns the keys and the documents on the last day",
    "a deposit of 250 yuan is paid back within 14 days",
    "the temperature of the store must not rise above 25 degrees",
    "questions are answered by the office on weekdays between 9 and 17",
    "the contract ends without notice at the end of its third year",
    "employees may carry over five days of leave into the next quarter",
    "the results were confirmed by two laboratories in other countries",
    "older versions of the manual are kept for ten years and then destroyed",
)
_CHINESE = (
    "委员会在春天再次开会，讨论去年的财务数据",
    "所有水泵在冬季到来之前由维修车间进行保养",
    "离职人员应当在最后一个工作日交还钥匙和文件",
    "押金250元将在14天之内退还给客户",
    "仓库的温度不得超过25摄氏度",
    "办公室在工作日的9点至17点回答咨询",
    "合同在第三年年底自动终止，无需另行通知",
    "员工可以把五天年假结转到下一个季度使用",
    "实验结果得到了国外两家机构的确认",
    "旧版本的手册保存十年，然后统一销毁",
)


def page_lines(rng: random.Random, phrases: Sequence[str], is_chinese: bool) -> list[str]:
    """Return the lines of a page of prose."""
    stop, gap = ("。", "") if is_chinese else (". ", " ")
    units = list(gap.join(f"{rng.choice(phrases)}{stop}" for _ in range(60)))
    if not is_chinese:
        units = [f"{word} " for word in "".join(units).split()]
    n_most, lines, line = (40 if is_chinese else 78), [], ""
    for unit in units:
        if len(line + unit) > n_most:
            lines.append(line.strip())
            line = ""
        line += unit
    return lines[:34]


def scanned(lines: Sequence[str], dpi: int, rng: random.Random) -> Image.Image:
    """Return the lines as a scanner brings them."""
    page = Image.new("L", (int(8.27 * dpi), int(11.69 * dpi)), 250)
    pen, size = ImageDraw.Draw(page), POINTS * dpi // 72
    font = ImageFont.truetype(FONT, size, index=2)
    for number, line in enumerate(lines):
        pen.text((dpi, dpi + number * size * 1.65), line, font=font, fill=30)
    page = page.rotate(rng.uniform(-1, 1), Image.Resampling.BICUBIC, fillcolor=250)
    noise = np.random.default_rng(rng.randrange(10**6)).normal(0, 8, (page.height, page.width))
    pixels = np.clip(np.asarray(page) + noise, 0, 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(0.4)).save(out, "JPEG", quality=75)
    return Image.fromarray(np.asarray(Image.open(out).convert("RGB")))


def missed(wanted: str, found: str) -> tuple[int, int]:
    """Return how many letters were not found in their order, and how many there are."""
    left, right = ([one for one in text if one.isalnum()] for text in (wanted, found))
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    return len(left) - sum(block.size for block in blocks), len(left)


def _cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def read_by_library(folder: Path) -> None:
    """Print what the library alone takes for the pictures of a folder, and what it reads."""
    from rapidocr import RapidOCR  # Measured in a process of its own.

    engine = RapidOCR(params={"Global.log_level": "error"})
    started, texts = time.perf_counter(), []
    for path in sorted(folder.glob("*.png")):
        texts.append(" ".join(engine(str(path)).txts or ()))
    wall = time.perf_counter() - started
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([texts, wall, _cpu(resource.RUSAGE_SELF), rss]))


def main() -> None:
    """Print the figures and keep them."""
    if len(sys.argv) > 2 and sys.argv[1] == "--library":
        read_by_library(Path(sys.argv[2]))
        return
    rng = random.Random(SEED)
    report = Report("ocr")
    with tempfile.TemporaryDirectory() as made:
        folder, wanted = Path(made), []
        pictures = []
        for language, phrases in (("zh", _CHINESE), ("en", _ENGLISH)):
            for dpi in DPIS:
                lines = page_lines(rng, phrases, language == "zh")
                pictures.append(scanned(lines, dpi, rng))
                wanted.append((language, dpi, " ".join(lines)))
        pages: list[PageWords] = []
        path = folder / "scan.tif"
        pictures[0].save(path, save_all=True, append_images=pictures[1:])
        for number, picture in enumerate(pictures):
            picture.save(folder / f"{number}.png")
        started, used = time.perf_counter(), _cpu(resource.RUSAGE_CHILDREN)
        SandboxedRecognizer().recognize(
            path, path.name, known=(), on_page=lambda page, n: pages.append(page)
        )
        ours = time.perf_counter() - started
        ours_cpu = _cpu(resource.RUSAGE_CHILDREN) - used
        rss = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        pages.sort(key=lambda page: page.number)
        counts: dict[str, list[int]] = {"zh": [0, 0], "en": [0, 0]}
        for page, (language, dpi, text) in zip(pages, wanted, strict=True):
            n_missed, n_all = missed(text, page.text)
            report.add(f"{language} at {dpi} dpi, missed %", 100 * n_missed / n_all, is_kept=False)
            counts[language][0] += n_missed
            counts[language][1] += n_all
        for language, (n_missed, n_all) in counts.items():
            report.add(f"letters missed, {language}, %", 100 * n_missed / n_all, most=0.3)
        command = [sys.executable, "-m", "benchmarks.ocr", "--library", made]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        texts, wall, cpu, library_rss = json.loads(done.stdout.splitlines()[-1])
        n_lost = sum(missed(w[2], t)[0] for w, t in zip(wanted, texts, strict=True))
        n_all = sum(n for _, n in counts.values())
        n_pages = len(pages)
        report.add("the library alone, missed %", 100 * n_lost / n_all, is_kept=False)
        report.add("pages a minute", 60 * n_pages / ours)
        report.add("the library alone, pages a minute", 60 * n_pages / wall)
        report.add("processor seconds a page, start included", ours_cpu / n_pages)
        report.add("the library alone, processor seconds a page", cpu / n_pages)
        report.add("peak memory of the child, MB", rss, most=1200)
        report.add("the library alone, MB", library_rss, is_kept=False)
    report.save()


if __name__ == "__main__":
    main()
