"""Workbooks, documents and presentations. Run: python office_files.py FOLDER"""

from __future__ import annotations

import datetime as dt
import io
import shutil
import zipfile

import openpyxl
import pandas as pd
import polars as pl
import pyexcelerate
import xlsxwriter
from common import DAY, FRAME, MARKDOWN, ROOT, folder, office, run
from docx import Document
from docx.shared import Inches
from msoffcrypto.format.ooxml import OOXMLFile
from openpyxl.comments import Comment
from PIL import Image
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE


def xlsx() -> None:
    at = folder("xlsx")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Revenue, Q3"
    sheet.append(["Region", "Revenue", "Closed", "Checked"])
    sheet.append(["North", 1200.5, DAY, True])
    sheet.append(['South "B"\nbranch', 830, dt.datetime(2025, 10, 1, 13, 45, 10), False])
    sheet["B4"] = "=SUM(B2:B3)"
    sheet["A6"] = "merged title"
    sheet.merge_cells("A6:C6")
    sheet["A2"].comment = Comment("audited", "A. Uthor")
    hidden = book.create_sheet("Lookup")
    hidden.sheet_state = "hidden"
    hidden["B2"] = 0.1 + 0.2
    hidden["C3"] = dt.timedelta(hours=30, minutes=5)
    hidden["D4"] = dt.time(9, 30)
    book.create_sheet("Empty")
    book.save(at / "openpyxl.xlsx")

    with xlsxwriter.Workbook(at / "xlsxwriter.xlsx", {"default_date_format": "dd.mm.yyyy"}) as book:
        sheet = book.add_worksheet("Data")
        sheet.write_row(0, 0, ["Item", "Price", "Date"])
        sheet.write_row(1, 0, ["Tea", 2.5])
        sheet.write_datetime(1, 2, dt.datetime(2024, 2, 29))
        sheet.write_formula(2, 1, "=B2*2", None, 5)
        sheet.write_rich_string(3, 0, "rich ", book.add_format({"bold": True}), "bold", " text")
        sheet.merge_range(4, 0, 4, 2, "wide")
        sheet.write_formula(5, 0, '=HYPERLINK("https://example.org","link")', None, "link")
        sheet.write_array_formula("B7:B8", "{=B2:B3*10}", None, 25)
        sheet.write_formula(7, 0, "=1/0", None, "#DIV/0!")
    with pd.ExcelWriter(at / "pandas.xlsx", engine="openpyxl") as writer:
        FRAME.to_excel(writer, sheet_name="frame", index=False)
        FRAME.groupby("region").sum(numeric_only=True).to_excel(writer, sheet_name="sums")
    book = pyexcelerate.Workbook()
    book.new_sheet(
        "fast", data=[["n", "square"], *([n, n * n] for n in range(5)), [dt.datetime(2020, 1, 1), "é"]]
    )
    book.save(at / "pyexcelerate.xlsx")
    office(at / "openpyxl.xlsx", "xlsx:Calc MS Excel 2007 XML", at / "libreoffice.xlsx")
    run("ssconvert", at / "xlsxwriter.xlsx", at / "gnumeric.xlsx")
    with pl.Config():
        pl.DataFrame({"a": [1, 2], "b": ["x", None], "when": [DAY, None]}).write_excel(at / "polars.xlsx")
    plain = (at / "openpyxl.xlsx").read_bytes()
    sealed = io.BytesIO()
    OOXMLFile(io.BytesIO(plain)).encrypt("secret", sealed)
    (at / "encrypted.xlsx").write_bytes(sealed.getvalue())
    (at / "truncated.xlsx").write_bytes(plain[: len(plain) // 2])
    (at / "empty.xlsx").write_bytes(b"")
    (at / "not-a-workbook.xlsx").write_bytes(b"Region,Revenue\nNorth,1\n")
    with zipfile.ZipFile(at / "other-zip.xlsx", "w") as archive:
        archive.writestr("hello.txt", "x")


def docx() -> None:
    at = folder("docx")
    (at / "source.md").write_text(MARKDOWN)
    run("pandoc", at / "source.md", "-o", at / "pandoc.docx")
    run("pandoc", at / "source.md", "-s", "-o", at / "source.odt")
    office(at / "source.odt", "docx:MS Word 2007 XML", at / "libreoffice.docx")
    run("pandoc", "-s", at / "source.md", "-o", at / "source.rtf")
    run("abiword", "--to=docx", "-o", at / "abiword.docx", at / "source.rtf")
    document = Document()
    document.add_heading("Offer", 0)
    document.add_heading("Scope", 2)
    paragraph = document.add_paragraph("We deliver ")
    paragraph.add_run("three").bold = True
    paragraph.add_run(" things, ")
    paragraph.add_run("soon").italic = True
    paragraph.add_run(".")
    for text in ("design", "build"):
        document.add_paragraph(text, style="List Bullet")
    document.add_paragraph("deeper", style="List Bullet 2")
    document.add_paragraph("first", style="List Number")
    document.add_paragraph("To quote.", style="Intense Quote")
    table = document.add_table(rows=3, cols=3)
    for row, cells in enumerate([["item", "a|b", "price"], ["wide", "", "5"], ["tea", "x", "2.50"]]):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    table.cell(1, 0).merge(table.cell(1, 1))
    image = io.BytesIO()
    Image.new("RGB", (4, 4), "red").save(image, "PNG")
    document.add_picture(image, width=Inches(0.2))
    document.sections[0].header.paragraphs[0].text = "Confidential"
    document.sections[0].footer.paragraphs[0].text = "Page footer"
    run_ = document.add_paragraph("Reviewed text.").runs[0]
    document.add_comment(run_, text="check this", author="Reviewer")
    document.save(at / "python-docx.docx")
    sealed = io.BytesIO()
    plain = (at / "python-docx.docx").read_bytes()
    OOXMLFile(io.BytesIO(plain)).encrypt("secret", sealed)
    (at / "encrypted.docx").write_bytes(sealed.getvalue())
    (at / "truncated.docx").write_bytes(plain[:3000])
    (at / "empty.docx").write_bytes(b"")
    shutil.copy(ROOT / "xlsx" / "polars.xlsx", at / "a-workbook.docx")
    for name in ("source.md", "source.odt", "source.rtf"):
        (at / name).unlink()


def pptx() -> None:
    at = folder("pptx")
    (at / "s.md").write_text(
        "% Deck\n% A. Uthor\n\n# First\n\n- point\n- second\n\n::: notes\nSay hello.\n:::\n\n"
        "# Table\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    run("pandoc", at / "s.md", "-o", at / "pandoc.pptx")
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Results"
    body = slide.placeholders[1].text_frame
    body.text = "Revenue up"
    body.add_paragraph().text = "North +12 %"
    body.paragraphs[1].level = 1
    slide.notes_slide.notes_text_frame.text = "Mention the\nexchange rate."
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Chart"
    data = CategoryChartData()
    data.categories = ["Q1", "Q2"]
    data.add_series("revenue", (1.5, 2))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 2_000_000, 3_000_000, 2_000_000, data)
    table = slide.shapes.add_table(2, 2, 0, 5_000_000, 3_000_000, 500_000).table
    table.cell(0, 0).text, table.cell(0, 1).text, table.cell(1, 0).text = "k", "v", "a|b"
    slide._element.set("show", "0")
    image = io.BytesIO()
    Image.new("RGB", (4, 4), "blue").save(image, "PNG")
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    slide.shapes.add_picture(image, 0, 0)
    box = slide.shapes.add_textbox(0, 1_000_000, 2_000_000, 500_000)
    box.text_frame.text = "free text"
    deck.save(at / "python-pptx.pptx")
    office(at / "python-pptx.pptx", "odp", at / "s.odp")
    office(at / "s.odp", "pptx:Impress MS PowerPoint 2007 XML", at / "libreoffice.pptx")
    (at / "fodp.md").write_text("# One slide\n\ntext only\n")
    run("pandoc", "-t", "pptx", at / "fodp.md", "-o", at / "p.pptx")
    office(at / "p.pptx", "pptx:Impress MS PowerPoint 2007 XML AutoPlay", at / "libreoffice-autoplay.pptx")
    plain = (at / "python-pptx.pptx").read_bytes()
    sealed = io.BytesIO()
    OOXMLFile(io.BytesIO(plain)).encrypt("secret", sealed)
    (at / "encrypted.pptx").write_bytes(sealed.getvalue())
    (at / "truncated.pptx").write_bytes(plain[:5000])
    (at / "empty.pptx").write_bytes(b"")
    for name in ("s.md", "s.odp", "fodp.md", "p.pptx"):
        (at / name).unlink()


for step in (
    xlsx,
    docx,
    pptx,
):
    step()
