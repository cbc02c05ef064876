// Elements from names, attributes and text. The one place that makes them: data becomes text nodes and nothing else.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * @param {string} tag
 * @param {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} attributes names that
 *   begin with "on" are listeners; null, undefined and false are left out
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/** @param {Element} parent @param {(Child | Child[])[]} children */
function append(parent, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false || child === "") continue;
    parent.append(child instanceof Node ? child : String(child));
  }
}

/** @param {Element} parent @param {...(Child | Child[])} children */
function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/** @param {string} id @returns {HTMLElement} */
function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`no element ${id}`);
  return element;
}

/** @param {string} text @param {() => void} act @param {Record<string, any>} [attributes] */
function button(text, act, attributes = {}) {
  return el("button", { type: "button", onclick: act, ...attributes }, text);
}

/** Data in a line: its own direction cannot change that of what stands around it.
 * @param {string} text @param {string} [kind] */
function datum(text, kind = "") {
  return el("bdi", { class: kind || null }, text);
}

/** @param {string} text @param {string} [kind] */
function badge(text, kind = text) {
  const known = ["pass", "fail", "error", "skipped", "open"].includes(kind) ? kind : "plain";
  return el("span", { class: `badge ${known}` }, text);
}

/** What is shown only when asked for. The body is made at the first opening.
 * @param {string} title @param {() => Child | Child[]} body @param {boolean} [open] @param {Child} [note] */
function fold(title, body, open = false, note = null) {
  const details = /** @type {HTMLDetailsElement} */ (el("details", { class: "fold" }, el("summary", {}, datum(title), note)));
  const make = () => {
    if (details.open && details.childElementCount === 1) append(details, [body()]);
  };
  details.addEventListener("toggle", make);
  if (open) {
    details.open = true;
    make();
  }
  return details;
}

/** @param {string} text @param {string} [label] @param {string} [kind] */
function pre(text, label = "", kind = "") {
  return el("pre", { class: kind || null, tabindex: "0", role: label ? "region" : null, "aria-label": label || null }, text);
}

/** @param {string} title @param {...(Child | Child[])} children */
function part(title, ...children) {
  return el("section", { class: "part" }, el("h3", {}, title), ...children);
}

/** @param {string[]} heads those that end in "#" are of numbers
 * @param {(Child | Child[])[][]} rows @param {string} label */
function table(heads, rows, label) {
  const numeric = heads.map((head) => head.endsWith("#"));
  const cell = (/** @type {string} */ tag) => (/** @type {any} */ content, /** @type {number} */ n) =>
    el(tag, { class: numeric[n] ? "number" : null, scope: tag === "th" ? "col" : null }, content);
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, heads.map((head) => head.replace(/#$/, "")).map(cell("th")))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell("td"))))),
    ),
  );
}
