// Text with the marks of Markdown as elements. Nothing becomes markup, nothing is loaded, and links are texts.

const MARKDOWN_CHARS = 60000;
const MARKED = /^ {0,3}(?:#{1,6} |[-*+] |\d+[.)] |```|~~~|> |\|)|\*\*|`[^`]+`|\[[^\]]+\]\(/m;

/** What a person wrote or a model answered: formatted where it has marks, with a button for the text itself.
 * @param {string} text @param {string} label @returns {HTMLElement} */
function prose(text, label) {
  if (text.length > MARKDOWN_CHARS || !MARKED.test(text)) return pre(text, label, "prose");
  const box = el("div", { class: "markdown", tabindex: "0", role: "region", "aria-label": label });
  const raw = pre(text, label, "prose");
  raw.hidden = true;
  append(box, markdownBlocks(text.split("\n")));
  const swap = button("Text", () => {
    raw.hidden = !raw.hidden;
    box.hidden = !box.hidden;
    swap.textContent = raw.hidden ? "Text" : "Formatted";
  }, { class: "small", "aria-label": `${label}: text or formatted` });
  return el("div", { class: "prose-box" }, swap, box, raw);
}

/** @param {string[]} lines @returns {Child[]} */
function markdownBlocks(lines) {
  /** @type {Child[]} */
  const blocks = [];
  /** @type {string[]} */
  let open = [];
  const close = () => {
    if (open.length) blocks.push(el("p", {}, inline(open.join("\n"))));
    open = [];
  };
  for (let n = 0; n < lines.length; n += 1) {
    const line = lines[n];
    const fence = /^ {0,3}(```+|~~~+)/.exec(line);
    const heading = /^ {0,3}(#{1,6}) +(.*?)(?: +#+)?$/.exec(line);
    const item = /^(\s*)(?:[-*+]|(\d+)[.)]) +(.*)$/.exec(line);
    const from = n;
    if (fence) {
      close();
      while (n + 1 < lines.length && !lines[n + 1].trim().startsWith(fence[1])) n += 1;
      blocks.push(pre(lines.slice(from + 1, n + 1).join("\n"), "Code"));
      n += 1;
    } else if (heading) {
      close();
      blocks.push(el("p", { class: `md-heading md-h${Math.min(heading[1].length, 3)}` }, inline(heading[2])));
    } else if (item) {
      close();
      while (n + 1 < lines.length && /^\s*(?:[-*+]|\d+[.)]) +/.test(lines[n + 1])) n += 1;
      const items = lines.slice(from, n + 1).map((each) => /** @type {RegExpExecArray} */ (/^(\s*)(?:[-*+]|\d+[.)]) +(.*)$/.exec(each)));
      blocks.push(el(item[2] ? "ol" : "ul", { start: item[2] && item[2].length < 9 ? item[2] : null }, items.map((each) => el("li", { class: each[1].length > 1 ? "deeper" : null }, inline(each[2])))));
    } else if (/^ {0,3}>/.test(line)) {
      close();
      while (n + 1 < lines.length && /^ {0,3}>/.test(lines[n + 1])) n += 1;
      blocks.push(el("blockquote", {}, inline(lines.slice(from, n + 1).map((each) => each.replace(/^ {0,3}> ?/, "")).join("\n"))));
    } else if (/^\s*\|.*\|\s*$/.test(line) && /^\s*\|[\s:|-]+\|\s*$/.test(lines[n + 1] || "")) {
      close();
      while (n + 1 < lines.length && /^\s*\|/.test(lines[n + 1])) n += 1;
      const cells = (/** @type {string} */ each) => each.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
      blocks.push(table(cells(line), lines.slice(from + 2, n + 1).map((each) => cells(each).map(inline)), "Table"));
    } else if (!line.trim()) close();
    else open.push(line);
  }
  close();
  return blocks;
}

/** @param {string} text @returns {Child[]} */
function inline(text) {
  /** @type {Child[]} */
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(/`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|!?\[([^\]\n]{1,500})\]\(([^)\s]{1,2000})\)/g)) {
    if (found.index > at) parts.push(datum(text.slice(at, found.index)));
    at = found.index + found[0].length;
    if (found[1] !== undefined) parts.push(el("code", {}, datum(found[1])));
    else if (found[2] !== undefined) parts.push(el("strong", {}, datum(found[2])));
    else if (found[3] !== undefined) parts.push(el("em", {}, datum(found[3])));
    else parts.push(datum(found[4]), el("span", { class: "soft" }, " (", datum(found[5]), ")"));
  }
  if (at < text.length) parts.push(datum(text.slice(at)));
  return parts;
}
