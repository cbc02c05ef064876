"""Stands in for an agent that produces files: a workbook, a web page and a picture that is none.

Writes its answer as JSON messages to the file that is its last argument. Needs nothing but Python.
"""

import json
import sys
import zipfile
from pathlib import Path

ROWS = [("region", "revenue"), ("North", 1200.5), ("South", 830)]
XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def write_workbook(path):
    rows = "".join(
        f'<row r="{n}"><c r="A{n}" t="inlineStr"><is><t>{name}</t></is></c>{value_cell(n, value)}</row>'
        for n, (name, value) in enumerate(ROWS, 1)
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/xl/workbook.xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
        '<Override PartName="/xl/worksheets/sheet1.xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>'
        '<sheet name="Q3" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{RELATIONS}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, XML + text)


def value_cell(row, value):
    if isinstance(value, str):
        return f'<c r="B{row}" t="inlineStr"><is><t>{value}</t></is></c>'
    return f'<c r="B{row}"><v>{value}</v></c>'


def main():
    out = Path("out")
    out.mkdir(exist_ok=True)
    write_workbook(out / "report.xlsx")
    (out / "report.html").write_text("<h1>Q3</h1><p>Revenue: <b>2030.5</b></p>", encoding="utf-8")
    (out / "notes.csv").write_text("region,remark\nNorth,new office\n", encoding="utf-8")
    (out / "photo.raw").write_bytes(bytes(range(256)))
    blocks = [
        {"type": "text", "text": "The report for Q3 is done."},
        {"type": "file", "media_type": "xlsx", "path": "out/report.xlsx"},
        {"type": "file", "media_type": "text/html", "path": "out/report.html"},
        {"type": "file", "media_type": "application/octet-stream", "path": "out/photo.raw"},
    ]
    answer = {"output": [{"role": "assistant", "content": blocks}]}
    Path(sys.argv[-1]).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
