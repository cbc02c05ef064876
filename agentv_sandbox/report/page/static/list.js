// Rows of which only those in sight are in the document, on TanStack Virtual; and the list of tests made of them.

const ROW_PX = 46;

/** Rows below one another in the page's own scroll area. */
class VirtualRows {
  /** @param {HTMLElement} body @param {(index: number) => HTMLElement} makeRow */
  constructor(body, makeRow) {
    this.body = body;
    this.makeRow = makeRow;
    this.length = 0;
    this.all = false;
    /** @type {Map<number, HTMLElement>} */
    this.made = new Map();
    this.virtualizer = new VirtualCore.Virtualizer(this.options());
    this.virtualizer._didMount();
    this.virtualizer._willUpdate();
  }

  options() {
    return {
      count: this.length,
      getScrollElement: () => window,
      estimateSize: () => ROW_PX,
      overscan: 10,
      scrollMargin: this.body.getBoundingClientRect().top + window.scrollY,
      scrollPaddingStart: byId("toolbar").offsetHeight + ROW_PX,
      scrollPaddingEnd: ROW_PX,
      scrollToFn: VirtualCore.windowScroll,
      observeElementRect: VirtualCore.observeWindowRect,
      observeElementOffset: VirtualCore.observeWindowOffset,
      initialOffset: () => window.scrollY,
      onChange: () => this.draw(),
    };
  }

  /** Other rows, or as many of other content. @param {number} length */
  reset(length) {
    this.length = length;
    this.made.clear();
    this.body.replaceChildren();
    this.measure();
  }

  /** What is above has another height. */
  measure() {
    this.virtualizer.setOptions(this.options());
    this.virtualizer._willUpdate();
    this.draw();
  }

  /** All rows in the document, as for paper. @param {boolean} all */
  showAll(all) {
    this.all = all;
    this.reset(this.length);
  }

  draw() {
    const items = this.all ? [...Array(this.length).keys()] : this.virtualizer.getVirtualItems().map((item) => item.index);
    const wanted = new Set(items);
    const focused = document.activeElement;
    for (const [index, row] of this.made)
      if (!wanted.has(index) && !row.contains(focused)) {
        row.remove();
        this.made.delete(index);
      }
    this.body.style.height = this.all ? "" : `${this.length * ROW_PX}px`;
    for (const index of items) {
      if (this.made.has(index)) continue;
      const row = this.makeRow(index);
      if (!this.all) row.style.transform = `translateY(${index * ROW_PX}px)`;
      this.made.set(index, row);
      this.body.append(row);
    }
  }

  /** @param {number} index @returns {HTMLElement | undefined} */
  show(index) {
    if (index < 0 || index >= this.length || this.body.offsetParent === null) return undefined;
    const top = index * ROW_PX + this.body.getBoundingClientRect().top;
    const above = byId("toolbar").offsetHeight + ROW_PX;
    if (top < above) window.scrollBy(0, top - above);
    else if (top + ROW_PX > window.innerHeight) window.scrollBy(0, top + ROW_PX - window.innerHeight + 8);
    this.draw();
    return this.made.get(index);
  }
}

/** @typedef {{key: string, title: string, show: boolean, cell: (entry: Entry) => Child | Child[], number?: boolean}} Column */

class TestList {
  /** @param {HTMLElement} home @param {Index} index
   * @param {{open: (entry: Entry) => void, sort: (key: string) => void}} actions */
  constructor(home, index, actions) {
    this.index = index;
    this.actions = actions;
    /** @type {Entry[]} */
    this.entries = [];
    this.current = -1;
    /** @type {Column[]} */
    this.columns = [];
    this.head = el("div", { role: "row", class: "row head", "aria-rowindex": 1 });
    this.body = el("div", { role: "rowgroup", class: "rows" });
    this.grid = el("div", { role: "grid", class: "grid", "aria-label": "Tests" }, el("div", { role: "rowgroup", class: "heads" }, this.head), this.body);
    fill(home, this.grid);
    this.rows = new VirtualRows(this.body, (number) => this.row(number));
  }

  /** @param {string[]} asked those of `ASKED` that are shown */
  choose(asked) {
    this.columns = columnsOf(this.index, asked).filter((column) => column.show);
    this.grid.setAttribute("aria-colcount", String(this.columns.length));
    this.grid.style.setProperty("--columns", this.columns.map((column) => WIDTHS.get(column.key) || "auto").join(" "));
  }

  /** @param {Entry[]} entries @param {string} sort @param {Entry | null} opened */
  show(entries, sort, opened) {
    this.entries = entries;
    this.opened = opened;
    this.current = opened ? entries.indexOf(opened) : Math.min(this.current, entries.length - 1);
    this.grid.setAttribute("aria-rowcount", String(entries.length + 1));
    this.heads(sort);
    this.rows.reset(entries.length);
  }

  /** @param {string} sort */
  heads(sort) {
    fill(
      this.head,
      this.columns.map(({ key, title, number }) => {
        const way = sort === key ? "ascending" : sort === `-${key}` ? "descending" : "none";
        const mark = way === "ascending" ? " ▲" : way === "descending" ? " ▼" : "";
        const act = () => this.actions.sort(way === "ascending" ? `-${key}` : way === "descending" ? "" : key);
        return el("div", { role: "columnheader", "aria-sort": way, class: `cell c-${key}${number ? " number" : ""}` }, button(title + mark, act));
      }),
    );
  }

  /** @param {number} number */
  row(number) {
    const entry = this.entries[number];
    const opened = entry === this.opened;
    return el(
      "div",
      {
        role: "row",
        class: `row ${entry.verdict}`,
        "aria-rowindex": number + 2,
        "aria-selected": String(opened),
        tabindex: number === Math.max(this.current, 0) ? "0" : "-1",
        onclick: () => this.actions.open(entry),
        onfocus: () => (this.current = number),
      },
      this.columns.map((column) =>
        el("div", { role: "gridcell", class: `cell c-${column.key}${column.number ? " number" : ""}` }, column.cell(entry)),
      ),
    );
  }

  /** Put the focus on the row that is `by` rows away. @param {number} by @param {boolean} [focus] */
  move(by, focus = true) {
    if (!this.entries.length) return null;
    const next = Math.max(0, Math.min(this.current + by, this.entries.length - 1));
    this.rows.made.get(this.current)?.setAttribute("tabindex", "-1");
    this.current = next;
    const row = this.rows.show(next);
    row?.setAttribute("tabindex", "0");
    if (focus) row?.focus({ preventScroll: true });
    return this.entries[next];
  }

  /** @param {Entry | null} entry */
  mark(entry) {
    this.opened = entry;
    if (entry) this.current = this.entries.indexOf(entry);
    for (const [number, row] of this.rows.made) row.setAttribute("aria-selected", String(this.entries[number] === entry));
  }
}

/** @type {Map<string, string>} */
const WIDTHS = new Map([
  ["verdict", "6rem"],
  ["test", "minmax(9rem, 2fr)"],
  ["run", "minmax(5rem, 1fr)"],
  ["target", "minmax(5rem, 1fr)"],
  ["score", "6.4rem"],
  ["reason", "minmax(8rem, 3fr)"],
  ["expected", "minmax(8rem, 2fr)"],
  ["criteria", "minmax(8rem, 2fr)"],
  ["input", "minmax(8rem, 2fr)"],
  ["seconds", "5rem"],
  ["tokens", "5.4rem"],
  ["cost", "5.2rem"],
]);

/** @param {string} word */
const titled = (word) => word.charAt(0).toUpperCase() + word.slice(1);

/** @param {Index} index @param {string[]} asked @returns {Column[]} */
function columnsOf(index, asked) {
  const { rows, runs } = index;
  const several = (/** @type {(entry: Entry) => unknown} */ value) => new Set(rows.map(value)).size > 1;
  const suites = several((entry) => entry.suite);
  return [
    { key: "verdict", title: "Verdict", show: true, cell: (entry) => badge(entry.verdict) },
    { key: "test", title: "Test", show: true, cell: (entry) => [testName(entry), suites && el("span", { class: "under" }, datum(entry.suite))] },
    { key: "run", title: "Run", show: runs.length > 1, cell: (entry) => datum(runs[entry.run].name) },
    { key: "target", title: "Target", show: several((entry) => entry.target), cell: (entry) => datum(entry.target) },
    { key: "score", title: "Score", show: true, number: true, cell: scoreCell },
    { key: "reason", title: "Reason", show: true, cell: (entry) => reasonCell(entry) },
    ...ASKED.map((key, n) => ({ key, title: titled(key), show: asked.includes(key), cell: (/** @type {Entry} */ entry) => el("span", { class: "line" }, datum(askedTexts[entry.number]?.[n] || "")) })),
    { key: "seconds", title: "Time", show: true, number: true, cell: (entry) => duration(entry.seconds) },
    { key: "tokens", title: "Tokens", show: rows.some((entry) => entry.tokens !== null), number: true, cell: (entry) => count(entry.tokens) },
    { key: "cost", title: "Cost", show: rows.some((entry) => entry.cost !== null), number: true, cell: (entry) => dollars(entry.cost) },
  ];
}

/** @param {Entry} entry */
function testName(entry) {
  return el("span", { class: "name" }, datum(entry.test), entry.trial ? ` (trial ${entry.trial})` : null);
}

/** @param {Entry} entry @returns {Child[]} */
function scoreCell(entry) {
  if (entry.score === null) return ["–"];
  const bar = el("span", { class: `bar ${entry.verdict}`, "aria-hidden": "true" }, el("span", {}));
  /** @type {HTMLElement} */ (bar.firstElementChild).style.width = `${Math.max(0, Math.min(entry.score, 1)) * 100}%`;
  return [bar, score(entry.score)];
}

/** @param {Entry} entry @returns {Child[]} */
function reasonCell(entry) {
  const line = entry.reason || (entry.verdict === "pass" ? "" : entry.reasons.join(", "));
  const cause = entry.verdict === "error" ? entry.reasons[0] : "";
  return [
    el("span", { class: "line" }, cause && el("b", {}, datum(cause), " "), datum(line)),
    entry.trials && el("span", { class: "under" }, datum(entry.trials)),
  ];
}
