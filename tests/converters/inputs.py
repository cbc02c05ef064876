"""An image, a paper, a workbook and a document, as common programs write them: what people give as input files."""

from __future__ import annotations

from pathlib import Path

SAMPLES = Path(__file__).parent / "samples"
INPUTS = {
    name: (SAMPLES / sample).read_bytes()
    for name, sample in {
        "in/plot.png": "image/matplotlib.png",
        "in/paper.pdf": "pdf/reportlab.pdf",
        "in/sales.xlsx": "xlsx/libreoffice.xlsx",
        "in/letter.docx": "docx/libreoffice.docx",
    }.items()
}
