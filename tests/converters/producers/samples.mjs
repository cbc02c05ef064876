// Makes the sample files that come from JavaScript libraries. Run once by hand: node make_samples.mjs FOLDER
import fs from "node:fs";
import path from "node:path";
import ExcelJS from "exceljs";
import * as docx from "docx";
import HTMLtoDOCX from "html-to-docx";
import PDFDocument from "pdfkit";
import officegen from "officegen";
import { parquetWriteFile } from "hyparquet-writer";
import pptxgen from "pptxgenjs";
import initSqlJs from "sql.js";
import XLSX from "xlsx";

const root = process.argv[2];
const at = (kind, name) => path.join(root, kind, name);
for (const kind of ["xlsx", "docx", "pptx", "pdf", "sqlite", "parquet"]) fs.mkdirSync(path.join(root, kind), { recursive: true });

const sheet = XLSX.utils.aoa_to_sheet([["name", "n"], ["Å", 1.5], ["date", new Date(Date.UTC(2024, 0, 31))]], { UTC: true });
sheet.B4 = { t: "n", f: "SUM(B2:B2)", v: 1.5 };
sheet["!ref"] = "A1:B4";
const book = XLSX.utils.book_new();
XLSX.utils.book_append_sheet(book, sheet, "js");
XLSX.writeFile(book, at("xlsx", "sheetjs.xlsx"));

const excel = new ExcelJS.Workbook();
const ws = excel.addWorksheet("exceljs");
ws.addRow(["a", "b"]);
ws.addRow([new Date(Date.UTC(2024, 1, 29)), { formula: "1+1", result: 2 }]);
ws.addRow([{ richText: [{ text: "ri" }, { font: { bold: true }, text: "ch" }] }, true]);
ws.mergeCells("A4:B4");
ws.getCell("A4").value = "span";
ws.getCell("A6").value = { error: "#N/A" };
await excel.xlsx.writeFile(at("xlsx", "exceljs.xlsx"));

const document = new docx.Document({
  sections: [{ children: [
    new docx.Paragraph({ text: "Made by docx.js", heading: docx.HeadingLevel.HEADING_1 }),
    new docx.Paragraph({ children: [new docx.TextRun("plain "), new docx.TextRun({ text: "bold", bold: true }),
      new docx.ExternalHyperlink({ link: "https://example.org", children: [new docx.TextRun(" link")] })] }),
    new docx.Paragraph({ text: "bullet", bullet: { level: 0 } }),
    new docx.Paragraph({ children: [new docx.InsertedTextRun({ text: "inserted ", id: 1, author: "R", date: "2025-01-01T00:00:00Z" }),
      new docx.DeletedTextRun({ text: "deleted", id: 2, author: "R", date: "2025-01-01T00:00:00Z" })] }),
    new docx.Table({ rows: [new docx.TableRow({ children: ["x", "y"].map((t) => new docx.TableCell({ children: [new docx.Paragraph(t)] })) })] }),
  ] }],
});
fs.writeFileSync(at("docx", "docxjs.docx"), await docx.Packer.toBuffer(document));
fs.writeFileSync(at("docx", "html-to-docx.docx"), await HTMLtoDOCX("<h2>From HTML</h2><p>Some <i>text</i></p><ol><li>one</li><li>two</li></ol>"));

const deck = new pptxgen();
const slide = deck.addSlide();
slide.addText("Hello from JS", { x: 1, y: 1 });
slide.addTable([["h", "i"], ["1", "2"]], { x: 1, y: 2 });
slide.addNotes("js notes");
await deck.writeFile({ fileName: at("pptx", "pptxgenjs.pptx") });

const pdf = new PDFDocument({ info: { Title: "PDFKit", CreationDate: new Date(0) } });
pdf.pipe(fs.createWriteStream(at("pdf", "pdfkit.pdf")));
pdf.text("Written by PDFKit.").text("Second line – with dash.");
pdf.end();

const office = officegen("pptx");
const page = office.makeNewSlide();
page.addText("Made by officegen", { x: 10, y: 10 });
office.generate(fs.createWriteStream(at("pptx", "officegen.pptx")));

const SQL = await initSqlJs();
const db = new SQL.Database();
db.run("CREATE TABLE js(a, b TEXT); INSERT INTO js VALUES (1, 'ä'), (2.5, 'line\nbreak');");
fs.writeFileSync(at("sqlite", "sqljs.sqlite"), db.export());

await parquetWriteFile({ filename: at("parquet", "hyparquet.parquet"),
  columnData: [{ name: "city", data: ["Malmö", "Oslo"], type: "STRING" }, { name: "n", data: [1, 2], type: "INT32" }] });
