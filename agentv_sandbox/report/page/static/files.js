// Files that the agent left: shown as text or as a checked picture, saved from the bytes in this page.

/** @typedef {{path: string, note: string, answer?: boolean, text?: string, converted?: string, raster?: string, file?: string, sha256?: string, left_out?: string}} FileView */

/** A name under which it is safe to save a file, whatever the agent called it. @param {string} path */
function safeFileName(path) {
  const name = (path.split(/[\\/]/).pop() || "").replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^[._-]+/, "").slice(-100);
  const runs = /\.(?:exe|com|bat|cmd|scr|pif|lnk|url|desktop|app|msi|reg|vbs?|jse?|wsf|hta|ps1|sh|html?|xhtml|xht|mht|mhtml|svgz?|xml|jar|command|webloc|chm|cpl|dll|inf)$/i;
  if (!name || /^(?:con|nul|prn|aux|com\d|lpt\d)(?:\.|$)/i.test(name)) return `file_${name}`;
  return runs.test(name) ? `${name}.txt` : name;
}

/** @param {FileView} file */
async function saveFile(file) {
  const bytes = await blockBytes(`file-${file.file}`);
  const url = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  el("a", { href: url, download: safeFileName(file.path) }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

/** @param {FileView} file */
function picture(file) {
  const image = /** @type {HTMLImageElement} */ (el("img", { alt: `picture ${file.path}`, class: "picture" }));
  blockBytes(`file-${file.file}`).then((bytes) => {
    const url = URL.createObjectURL(new Blob([bytes], { type: file.raster }));
    image.addEventListener("load", () => URL.revokeObjectURL(url));
    image.addEventListener("error", () => image.replaceWith("This picture cannot be read."));
    image.src = url;
  });
  return image;
}

/** @param {FileView} file @param {number} number */
function fileView(file, number) {
  const save = file.file && button("Save", () => void saveFile(file), { "aria-label": `Save ${file.path} as ${safeFileName(file.path)}`, class: "small" });
  const first = number < 3;
  return el("div", { class: "file" },
    el("div", { class: "file-head" }, el("code", {}, datum(file.path)), " ", datum(file.note, "soft"), " ", save),
    file.left_out && el("p", { class: "soft" }, `Not in this page: ${file.left_out}.`),
    file.raster && file.file && picture(file),
    file.converted && fold("As text, as its preprocessor reads it", () => pre(file.converted || "", `${file.path} as text`), first),
    file.text && fold("Text", () => codeView(file.text || "", file.path), first && file.text.length < 3000),
    file.sha256 && el("p", { class: "soft hash" }, `sha256 ${file.sha256}`));
}
