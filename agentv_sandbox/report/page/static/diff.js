// The difference of a workspace: files, lines, and the colours of their languages.

/** @typedef {{kind: string, text: string}} DiffLine @typedef {{path: string, lines: DiffLine[], added: number, removed: number}} DiffFile */

const HIGHLIGHT_CHARS = 20000;
const HIGHLIGHT_LINE = 500;
const HIGHLIGHT_MS = 250;
const SHOWN_LINES = 4000;

/** @type {Map<string, string>} */
const LANGUAGES = new Map(Object.entries({
  py: "python", js: "javascript", mjs: "javascript", cjs: "javascript", jsx: "javascript", ts: "typescript", tsx: "typescript",
  rb: "ruby", rs: "rust", go: "go", java: "java", c: "c", h: "c", cc: "cpp", cpp: "cpp", hpp: "cpp", cs: "csharp", css: "css",
  scss: "scss", less: "less", html: "xml", htm: "xml", xml: "xml", svg: "xml", json: "json", jsonl: "json", md: "markdown", yml: "yaml",
  yaml: "yaml", toml: "ini", ini: "ini", cfg: "ini", sh: "bash", bash: "bash", sql: "sql", r: "r", lua: "lua", php: "php",
  pl: "perl", swift: "swift", kt: "kotlin", mk: "makefile", diff: "diff", patch: "diff",
}));

/** @param {string} path */
function languageOf(path) {
  const name = path.split("/").pop() || "";
  if (name === "Makefile") return "makefile";
  return LANGUAGES.get((name.split(".").pop() || "").toLowerCase()) || "";
}

/** @param {string} text @returns {DiffFile[]} */
function parseDiff(text) {
  /** @type {DiffFile[]} */
  const files = [];
  let inHunk = false;
  for (const line of text.replace(/\n$/, "").split("\n")) {
    if (line.startsWith("diff --git ") || !files.length) {
      const path = / b\/(.*)$/.exec(line);
      files.push({ path: path ? path[1] : "", lines: [], added: 0, removed: 0 });
      inHunk = false;
      if (line.startsWith("diff --git ")) continue;
    }
    const file = files[files.length - 1];
    if (line.startsWith("@@")) inHunk = true;
    const mark = line[0];
    const kind = line.startsWith("@@") ? "hunk" : !inHunk ? "head" : mark === "+" ? "add" : mark === "-" ? "del" : "same";
    if (kind === "add") file.added += 1;
    if (kind === "del") file.removed += 1;
    file.lines.push({ kind, text: line });
  }
  return files;
}

/** Text in the colours of its language. The tree of highlight.js becomes elements, without any markup in between.
 * @param {string} text @param {string} language @param {number} until milliseconds of performance.now()
 * @returns {Node[][]} one list a line */
function highlightedLines(text, language, until) {
  const plain = () => text.split("\n").map((line) => [document.createTextNode(line)]);
  if (!language || text.length > HIGHLIGHT_CHARS || performance.now() > until) return plain();
  if (text.split("\n").some((line) => line.length > HIGHLIGHT_LINE)) return plain();
  let root;
  try {
    root = hljs.highlight(text, { language, ignoreIllegals: true })._emitter.root;
  } catch {
    return plain();
  }
  /** @type {Node[][]} */
  const lines = [[]];
  const walk = (/** @type {any} */ node, /** @type {string} */ scope) => {
    if (typeof node !== "string") {
      for (const child of node.children) walk(child, node.scope || scope);
      return;
    }
    node.split("\n").forEach((piece, n) => {
      if (n) lines.push([]);
      if (!piece) return;
      const name = scope && /^[a-z_]+/.exec(scope);
      lines[lines.length - 1].push(name ? el("span", { class: `hl-${name[0]}` }, piece) : document.createTextNode(piece));
    });
  };
  walk(root, "");
  return lines;
}

/** @param {string} diff @returns {Child[]} */
function diffView(diff) {
  const until = performance.now() + HIGHLIGHT_MS;
  let room = SHOWN_LINES;
  return parseDiff(diff).map((file, number) => {
    const lines = file.lines.slice(0, Math.max(room, 0));
    room -= lines.length;
    const note = el("span", { class: "soft" }, ` +${file.added} −${file.removed}`);
    const body = () => el("div", { class: "diff", tabindex: "0", role: "region", "aria-label": `Changes of ${file.path}` }, diffLines(lines, languageOf(file.path), until),
      lines.length < file.lines.length && el("div", { class: "head" }, `… ${file.lines.length - lines.length} more lines; workspace.diff has them`));
    return fold(file.path || "changes", body, number < 5, note);
  });
}

/** @param {DiffLine[]} lines @param {string} language @param {number} until */
function diffLines(lines, language, until) {
  const before = lines.filter((line) => line.kind === "del" || line.kind === "same");
  const after = lines.filter((line) => line.kind === "add" || line.kind === "same");
  const coloured = new Map();
  for (const side of [before, after]) {
    const nodes = highlightedLines(side.map((line) => line.text.slice(1)).join("\n"), language, until);
    side.forEach((line, n) => coloured.set(line, nodes[n] || []));
  }
  return lines.map((line) =>
    el("div", { class: line.kind }, coloured.has(line) ? [el("span", { class: "mark" }, line.text[0] || " "), ...coloured.get(line)] : line.text || " "));
}

/** @param {string} text @param {string} path */
function codeView(text, path) {
  const lines = highlightedLines(text, languageOf(path), performance.now() + HIGHLIGHT_MS);
  const box = pre("", path);
  lines.forEach((nodes, n) => box.append(...(n ? ["\n"] : []), ...nodes));
  return box;
}
