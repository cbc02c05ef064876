"""Excel workbook (.xlsx) to CSV, one block a sheet, with Python's standard library alone.

Reads the preprocessor protocol: {"path": ...} on standard input, text on standard output. Shows what a
spreadsheet program shows: stored results of formulas, dates as ISO dates. Formulas, merged ranges and hidden
sheets are named below and beside the values.
"""

import csv
import io
import json
import posixpath
import re
import sys
import zipfile
from datetime import datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

MAX_ROWS = 2000  # of a sheet
MAX_COLUMNS = 200
MAX_LISTED = 200  # formulas and merged ranges of a sheet
MAX_STRINGS_BYTES = 64 << 20  # unpacked size of the table of texts

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
STRICT = "{http://purl.oclc.org/ooxml/spreadsheetml/main}"
RELATION = re.compile(r"\{.*relationships\}id")
DATE_FORMATS = {14, 15, 16, 17, 18, 19, 20, 21, 22, 27, 30, 36, 45, 46, 47, 50, 57}


class Problem(Exception):
    """The file cannot be read; the message says why."""


def main():
    path = json.load(sys.stdin)["path"]
    try:
        with Path(path).open("rb") as stream:
            start = stream.read(8)
        if not start:
            raise Problem("the file is empty")
        if start.startswith(b"\xd0\xcf\x11\xe0"):
            raise Problem("the workbook is encrypted, or an old .xls file")
        with zipfile.ZipFile(path) as archive:
            sys.stdout.write("\n".join(workbook(archive)))
    except (zipfile.BadZipFile, ElementTree.ParseError, KeyError, EOFError, zipfile.zlib.error) as error:
        sys.exit(f"not a readable .xlsx file: {error.args[0] if error.args else error}")
    except Problem as problem:
        sys.exit(str(problem))


def elements(archive, name):
    """End events of one part's elements, local names without the namespace."""
    with archive.open(name) as stream:
        if b"<!DOCTYPE" in stream.peek(4096)[:4096]:
            raise Problem(f"{name} declares a document type, which no workbook does")
        for event, element in ElementTree.iterparse(stream, events=("start", "end")):
            element.tag = element.tag.replace(STRICT, "").replace(MAIN, "")
            yield event, element


def tree(archive, name):
    """One small part as a whole."""
    if archive.getinfo(name).file_size > 16 << 20:
        raise Problem(f"{name} is too large")
    *_, (_event, root) = elements(archive, name)  # the last to end
    return root


def workbook(archive):
    book = tree(archive, "xl/workbook.xml")
    targets = {}
    for relation in tree(archive, "xl/_rels/workbook.xml.rels"):
        target = relation.get("Target", "")
        targets[relation.get("Id")] = posixpath.normpath(posixpath.join("/xl", target)).lstrip("/")
    properties = book.find("workbookPr")
    epoch_1904 = properties is not None and properties.get("date1904") in ("1", "true")
    names = set(archive.namelist())
    strings = list(shared_strings(archive)) if "xl/sharedStrings.xml" in names else []
    formats = date_formats(archive) if "xl/styles.xml" in names else {}
    for sheet in book.iter("sheet"):
        relation = next((value for key, value in sheet.attrib.items() if RELATION.fullmatch(key)), None)
        part = targets.get(relation, "")
        if part not in names:
            continue
        hidden = "" if sheet.get("state", "visible") == "visible" else " (hidden)"
        yield f"## Sheet: {sheet.get('name')}{hidden}\n"
        yield from Sheet(strings, formats, epoch_1904).lines(elements(archive, part))


def shared_strings(archive):
    if archive.getinfo("xl/sharedStrings.xml").file_size > MAX_STRINGS_BYTES:
        raise Problem("the workbook's texts are too large")
    for event, element in elements(archive, "xl/sharedStrings.xml"):
        if event == "end" and element.tag == "si":
            yield rich_text(element)
            element.clear()


def rich_text(element):
    """Text of runs, without phonetic hints."""
    parts = []
    for child in element:
        if child.tag == "t":
            parts.append(child.text or "")
        elif child.tag == "r":
            parts += [t.text or "" for t in child.iter("t")]
    return "".join(parts)


def date_formats(archive):
    """Style number -> "date" or "duration", for those that show a number as one."""
    styles = tree(archive, "xl/styles.xml")
    codes = {int(f.get("numFmtId")): f.get("formatCode", "") for f in styles.iter("numFmt")}
    cells = styles.find("cellXfs")
    found = {}
    for number, style in enumerate(cells if cells is not None else ()):
        format_id = int(style.get("numFmtId", "0"))
        code = re.sub(r'"[^"]*"|\\.|_.|\*.', "", codes.get(format_id, ""))
        if format_id == 46 or re.search(r"\[(h+|m+|s+)\]", code, re.IGNORECASE):
            found[number] = "duration"
        elif format_id in DATE_FORMATS or re.search(
            r"[dmyhs]", re.sub(r"\[[^]]*\]", "", code), re.IGNORECASE
        ):
            found[number] = "date"
    return found


class Sheet:
    def __init__(self, strings, formats, epoch_1904):
        self.strings = strings
        self.formats = formats
        self.epoch = datetime(1904, 1, 1) if epoch_1904 else datetime(1899, 12, 30)
        self.formulas = []
        self.merged = []
        self.rows = {}
        self.cut = False

    def lines(self, events):
        row = 0
        column = 0
        for event, element in events:
            if event == "start":
                if element.tag == "row":
                    row = int(element.get("r") or row + 1)
                    column = 0
                continue
            if element.tag == "c":
                where = element.get("r")
                column = column_number(where) if where else column + 1
                if row <= MAX_ROWS and column <= MAX_COLUMNS:
                    self.cell(element, row, column)
                elif list(element):
                    self.cut = True
            elif element.tag == "row":
                element.clear()
            elif element.tag == "mergeCell" and len(self.merged) < MAX_LISTED:
                self.merged.append(element.get("ref"))
        return self.printed()

    def cell(self, element, row, column):
        formula = element.find("f")
        value = self.value(element)
        if formula is not None and formula.text:
            if len(self.formulas) < MAX_LISTED:
                self.formulas.append(f"{column_letters(column)}{row} ={formula.text}")
            value = value or f"={formula.text}"
        if value:
            self.rows.setdefault(row, {})[column] = value

    def value(self, element):
        kind = element.get("t", "n")
        if kind == "inlineStr":
            inline = element.find("is")
            return rich_text(inline) if inline is not None else ""
        raw = element.findtext("v") or ""
        if not raw:
            return ""
        if kind == "s":
            return self.strings[int(raw)] if raw.isdigit() and int(raw) < len(self.strings) else ""
        if kind == "b":
            return "TRUE" if raw == "1" else "FALSE"
        if kind == "n":
            return self.number(raw, self.formats.get(int(element.get("s", "0"))))
        return raw.replace("T", " ").removesuffix(" 00:00:00") if kind == "d" else raw

    def number(self, raw, kind):
        try:
            number = float(raw)
            if kind == "duration":
                seconds = round(number * 86400)
                return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
            if kind == "date":
                return self.moment(number)
        except (ValueError, OverflowError):
            return raw
        return f"{number:.15g}"

    def moment(self, serial):
        if 0 <= serial < 1:
            return (datetime(2000, 1, 1) + timedelta(seconds=round(serial * 86400))).strftime("%H:%M:%S")
        if serial < 60 and self.epoch.year == 1899:
            serial += 1  # Excel believes that 1900 was a leap year
        when = self.epoch + timedelta(seconds=round(serial * 86400))
        return when.isoformat(" ").removesuffix(" 00:00:00")

    def printed(self):
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        last = max(self.rows, default=0)
        for row in range(1, last + 1):
            cells = self.rows.get(row, {})
            writer.writerow([cells.get(column, "") for column in range(1, max(cells, default=0) + 1)])
        yield out.getvalue()
        if self.cut:
            yield f"(cut: only the first {MAX_ROWS} rows and {MAX_COLUMNS} columns are shown)\n"
        if self.formulas:
            yield "Formulas:\n" + "".join(f"- {formula}\n" for formula in self.formulas)
        if self.merged:
            yield "Merged cells: " + ", ".join(self.merged) + "\n"


def column_number(reference):
    number = 0
    for char in reference:
        if not char.isalpha():
            break
        number = number * 26 + ord(char.upper()) - 64
    return number


def column_letters(number):
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


if __name__ == "__main__":
    main()
