"""RapidOCR engine: the OcrEngine port. Only the child process of the sandbox imports it."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from rapidocr import RapidOCR

from rag.core.ocr.scans import Corner, TextLine

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Lines are found in a smaller picture, which costs half the time and memory, and read in the
# large one; a picture whose shorter side is below LEAST would be made larger by the library.
DETECT, LEAST = 1472, 736
MIN_SCORE = 0.5
_SETTINGS = {
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
    "Global.log_level": "error",
    "Global.return_word_box": True,
    # Batches of long lines take most of the memory, and on a processor no less time.
    "Rec.rec_batch_num": 2,
    "Det.limit_side_len": 32,
}


class RapidOcrEngine:
    """PP-OCR models for Chinese and English; safe in threads, one processor each."""

    def __init__(self) -> None:
        cv2.setNumThreads(1)
        self._library: Any = RapidOCR(params=_SETTINGS)
        # One picture at a time: finding its lines takes most of the memory.
        self._finding = threading.Lock()

    def read_lines(self, picture: NDArray[Any]) -> tuple[list[TextLine], int]:
        """Return the lines of a picture (BGR) and how it is turned, in quarter turns to the left.

        Corners and lines are those of the picture as it would be upright.
        """
        quads, crops = self._find(picture)
        turn = 0
        if _are_upright(quads):
            # Once more, since short words are found only where lines run across.
            turn, picture = 1, np.ascontiguousarray(np.rot90(picture, -1))
            quads, crops = self._find(picture)
        if not crops:
            return [], 0
        if self._is_upside_down(crops):
            turn, picture = (turn + 2) % 4, np.ascontiguousarray(np.rot90(picture, 2))
            quads, crops = self._find(picture)
        return self._read(quads, crops), turn

    def _find(self, picture: NDArray[Any]) -> tuple[list[Any], list[Any]]:
        height, width = picture.shape[:2]
        scale = min(1.0, DETECT / max(height, width))
        small: Any = picture
        if scale < 1:
            size = max(1, round(width * scale)), max(1, round(height * scale))
            small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        low, wide = small.shape[:2]
        # Lines at the very edge are found only with some room around them.
        edges = (16, max(16, LEAST - low - 16), 16, max(16, LEAST - wide - 16))
        padded = cv2.copyMakeBorder(small, *edges, cv2.BORDER_REPLICATE)
        detector = self._library._load_det_model()
        with self._finding:
            found = detector(padded).boxes
        if found is None:
            return [], []
        quads = (np.asarray(found, dtype=np.float32) - 16) / scale
        quads = [quad for quad in quads if _is_inside(quad, width, height)]
        return quads, self._library.crop_text_regions(picture, quads)

    def _is_upside_down(self, crops: list[Any]) -> bool:
        _, result = self._library.cls_and_rotate(crops)
        weighted = [
            (crop.shape[1], label == "180" and score > 0.7)
            for crop, (label, score) in zip(crops, result.cls_res, strict=True)
        ]
        n_over = sum(width for width, is_over in weighted if is_over)
        return bool(n_over > 0.5 * sum(width for width, _ in weighted))

    def _read(self, quads: list[Any], crops: list[Any]) -> list[TextLine]:
        result = self._library.recognize_txt(crops)
        lines = []
        for quad, text, score, info in zip(
            quads, result.txts, result.scores, result.word_results, strict=True
        ):
            if not text.strip() or score < MIN_SCORE:
                continue
            columns = [column for word in info.word_cols for column in word]
            places = tuple((column + 0.5) / info.line_txt_len for column in columns)
            corners: list[Corner] = [(float(x), float(y)) for x, y in quad]
            lines.append(TextLine(text, tuple(corners), float(score), places))  # type: ignore[arg-type]
        return lines


def _is_inside(quad: Any, width: int, height: int) -> bool:
    x, y = quad.mean(axis=0)
    return bool(0 <= x <= width and 0 <= y <= height)


def _are_upright(quads: list[Any]) -> bool:
    """Return whether most lines run up or down the picture."""
    upright = across = 0.0
    for quad in quads:
        wide, high = math.dist(quad[0], quad[1]), math.dist(quad[1], quad[2])
        if high > 1.5 * wide:
            upright += high
        else:
            across += wide
    return upright > across
