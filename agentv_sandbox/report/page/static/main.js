// Puts the page together: what is shown follows from the address, and every action changes the address.

/** @param {Index} index */
function start(index) {
  index.rows.forEach((entry, number) => (entry.number = number));
  readChanges(index);
  noteDifferences(index.rows);
  const several = index.runs.length > 1 || new Set(index.rows.map((entry) => entry.target)).size > 1;
  /** @type {State} */
  let state = readState(location.hash);
  /** @type {Entry[]} */
  let shown = [];
  let drawn = "";
  let byKeys = false;

  const viewOf = () => (several ? state.view || (index.runs.length > 1 ? "matrix" : "list") : "list");
  const change = (/** @type {(state: State) => void} */ act, push = true) => {
    act(state);
    const target = writeState(state);
    if (push) history.pushState(null, "", target);
    else history.replaceState(null, "", target);
    draw();
  };

  const openEntry = (/** @type {Entry} */ entry) => {
    change((now) => nameEntry(now, index, entry));
    panel.focus();
  };
  const close = () => {
    change((now) => Object.assign(now, { test: "", of: "", on: "", at: "", trial: "" }));
    list.move(0);
  };
  const go = (/** @type {number} */ by) => {
    const entry = list.move(by, false);
    if (entry) change((now) => nameEntry(now, index, entry), false);
  };

  drawTop(byId("top"), index);
  drawOverview(byId("overview"), index, change);
  drawFoot(byId("foot"), index);
  const toolbar = new Toolbar(byId("toolbar"), index, several, change);
  const listHome = el("div", {});
  const matrixHome = el("div", {});
  append(byId("list"), [listHome, matrixHome]);
  const list = new TestList(listHome, index, {
    open: openEntry,
    sort: (key) => change((now) => (now.sort = key)),
  });
  const matrix = several ? new Matrix(matrixHome, index, openEntry) : null;
  const ratings = new Ratings(byId("ratings"), index, () => {
    drawn = "";
    toolbar.count("rating");
    draw();
  });
  const panel = new Panel(byId("panel"), index, {
    close,
    go,
    open: openEntry,
    trial: (trial) => change((now) => (now.trial = trial)),
  }, ratings);
  const clear = () => change((now) => Object.assign(now, { q: "", verdict: [], filters: new Map() }));
  byId("clear-empty").addEventListener("click", clear);
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    list.move(0);
  });

  function draw() {
    const entry = findEntry(state, index);
    const view = viewOf();
    const filtered = JSON.stringify([state.q, state.verdict, [...state.filters], state.sort, view, searchTexts.length, state.columns, askedTexts.length]);
    if (filtered !== drawn) {
      drawn = filtered;
      shown = sorted(matching(index.rows, state), state.sort);
      listHome.hidden = view !== "list";
      matrixHome.hidden = view === "list";
      list.choose(state.columns);
      list.show(shown, state.sort, entry);
      if (state.columns.length && !askedTexts.length) void readAskedTexts().then(draw);
      if (view !== "list") matrix?.show(shown);
      toolbar.draw(state, shown.length, view);
      byId("empty").hidden = shown.length > 0;
      byId("status").textContent = `${counted(shown.length, "test")} of ${count(index.rows.length)}`;
    }
    const wasOpen = document.body.classList.contains("opened");
    list.mark(entry);
    document.title = entry ? `${entry.test} · ${index.runs[entry.run].name}` : `${index.runs.map((run) => run.name).join(", ")} · evaluation results`;
    void panel.show(entry, state.trial);
    if (wasOpen !== (entry !== null)) {
      list.rows.measure();
      matrix?.rows.measure();
      if (entry && !byKeys) list.move(0, false);
    }
  }

  const read = () => {
    state = readState(location.hash);
    draw();
    if (state.q) void readSearchTexts().then(draw);
  };
  window.addEventListener("hashchange", read);
  window.addEventListener("popstate", read);
  window.addEventListener("resize", () => {
    list.rows.measure();
    matrix?.rows.measure();
  });
  toolbar.onSearch = () => void readSearchTexts().then(draw);
  listenToKeys({
    move: (by) => {
      if (viewOf() !== "list") {
        if (panel.entry) go(by);
        return;
      }
      byKeys = true;
      const entry = list.move(by);
      if (entry && panel.entry) change((now) => nameEntry(now, index, entry), false);
      byKeys = false;
    },
    open: () => list.entries[list.current] && openEntry(list.entries[list.current]),
    escape: () => (panel.entry ? close() : state.q || state.filters.size || state.verdict.length ? clear() : undefined),
    search: () => toolbar.focus(),
    view: () => several && change((now) => (now.view = viewOf() === "list" ? "matrix" : "list")),
  });
  listenToPrint(() => panel.entry, (all) => {
    list.rows.showAll(all);
    matrix?.rows.showAll(all);
  });
  read();
}

/** @param {State} state @param {Index} index @param {Entry} entry */
function nameEntry(state, index, entry) {
  const same = index.rows.filter((each) => each.test === entry.test);
  const differ = (/** @type {(each: Entry) => unknown} */ value) => new Set(same.map(value)).size > 1;
  state.test = entry.test;
  state.of = differ((each) => each.suite) ? entry.suite : "";
  state.on = differ((each) => each.target) ? entry.target : "";
  state.at = differ((each) => `${each.run} ${each.trial}`) ? `${entry.run}.${entry.trial || 0}` : "";
  state.trial = "";
}

/** @param {State} state @param {Index} index @returns {Entry | null} */
function findEntry(state, index) {
  if (!state.test) return null;
  const fits = (/** @type {Entry} */ entry) =>
    entry.test === state.test && (!state.of || entry.suite === state.of) && (!state.on || entry.target === state.on) && (!state.at || `${entry.run}.${entry.trial || 0}` === state.at);
  return index.rows.find(fits) || null;
}

class Toolbar {
  /** @param {HTMLElement} home @param {Index} index @param {boolean} several @param {(act: (state: State) => void, push?: boolean) => void} change */
  constructor(home, index, several, change) {
    this.home = home;
    this.index = index;
    this.several = several;
    this.change = change;
    this.onSearch = () => {};
    this.search = /** @type {HTMLInputElement} */ (el("input", {
      type: "search", placeholder: "Search tests, prompts, answers   /", "aria-label": "Search tests, prompts, answers and reasons", title: "Also score<0.5, seconds>60, cost>0.1, target:NAME, tag:NAME, reason:NAME, -WORD", autocomplete: "off", spellcheck: "false",
      oninput: () => this.typed(),
    }));
    this.controls = el("div", { class: "controls" });
    fill(home, this.search, this.controls);
    this.waiting = 0;
    /** How many values each filter has. @type {Map<string, number>} */
    this.possible = new Map();
    FILTERS.forEach((name) => this.count(name));
  }

  /** Values of a filter are other ones now. @param {string} name */
  count(name) {
    this.possible.set(name, name === "score" ? 0 : new Set(this.index.rows.flatMap((entry) => FACETS.get(name)?.(entry) || [])).size);
  }

  typed() {
    clearTimeout(this.waiting);
    this.waiting = window.setTimeout(() => {
      this.change((state) => (state.q = this.search.value), false);
      this.onSearch();
    }, 120);
  }

  focus() {
    this.search.focus();
    this.search.select();
  }

  /** @param {State} state @param {number} shown @param {string} view */
  draw(state, shown, view) {
    if (document.activeElement !== this.search) this.search.value = state.q;
    const focused = document.activeElement?.getAttribute("data-key");
    const { rows, runs } = this.index;
    const verdicts = facetVerdicts(matching(rows, state, "verdict"));
    fill(this.controls,
      this.several && el("div", { class: "group", role: "group", "aria-label": "View" }, [["list", "List"], ["matrix", "Matrix"]].map(([key, title]) =>
        button(title, () => this.change((now) => (now.view = key)), { "aria-pressed": String(view === key), "data-key": `view-${key}` }))),
      el("div", { class: "group", role: "group", "aria-label": "Verdict" }, VERDICTS.filter((word) => !["skipped", "open"].includes(word) || verdicts.has(word) || state.verdict.includes(word)).map((word) =>
        button(`${word} ${count(verdicts.get(word) || 0)}`, () => this.change((now) => toggle(now.verdict, word)), { class: word, "aria-pressed": String(state.verdict.includes(word)), "data-key": `verdict-${word}` }))),
      FILTERS.map((name) => this.choice(name, state, (value) => (name === "run" ? runs[Number(value)]?.name || value : name === "score" ? `${(Number(value) / 10).toFixed(1)} to ${((Number(value) + 1) / 10).toFixed(1)}` : value))),
      view === "list" && el("div", { class: "group", role: "group", "aria-label": "More columns" }, ASKED.map((name) =>
        button(`+ ${name}`, () => this.change((now) => toggle(now.columns, name)), { "aria-pressed": String(state.columns.includes(name)), "data-key": `column-${name}` }))),
      el("span", { class: "soft shown" }, `${count(shown)} of ${counted(rows.length, "test")}`),
      (state.q || state.verdict.length || state.filters.size > 0) && button("Clear", () => this.change((now) => Object.assign(now, { q: "", verdict: [], filters: new Map() })), { "data-key": "clear" }));
    if (focused) /** @type {HTMLElement | null} */ (this.controls.querySelector(`[data-key="${CSS.escape(focused)}"]`))?.focus();
  }

  /** @param {string} name @param {State} state @param {(value: string) => string} title @returns {Child} */
  choice(name, state, title) {
    const chosen = state.filters.get(name);
    const fewest = ["reason", "tag", "differs", "rating"].includes(name) ? 1 : 2;
    if (chosen === undefined && (this.possible.get(name) || 0) < fewest) return null;
    const values = facetCounts(name, matching(this.index.rows, state, name)).filter(([value]) => value !== "");
    if (chosen !== undefined && !values.some(([value]) => value === chosen)) values.unshift([chosen, 0]);
    const select = /** @type {HTMLSelectElement} */ (el("select", {
      "aria-label": `Filter by ${name}`, class: chosen === undefined ? null : "chosen", "data-key": `filter-${name}`,
      onchange: () => this.change((now) => (select.selectedIndex === 0 ? now.filters.delete(name) : now.filters.set(name, select.value))),
    }, el("option", { value: "" }, `${name}: all`), values.slice(0, 300).map(([value, tests]) => el("option", { value, selected: value === chosen }, `${title(value).slice(0, 60)} (${tests})`))));
    return select;
  }
}

/** @param {Entry[]} entries */
function facetVerdicts(entries) {
  const counts = new Map();
  for (const { verdict } of entries) counts.set(verdict, (counts.get(verdict) || 0) + 1);
  return counts;
}

/** @param {string[]} words @param {string} word */
function toggle(words, word) {
  const at = words.indexOf(word);
  if (at < 0) words.push(word);
  else words.splice(at, 1);
}

/** @param {{move: (by: number) => void, open: () => void, escape: () => void, search: () => void, view: () => void}} actions */
function listenToKeys(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.key === "Escape") {
      event.preventDefault();
      if (target.matches("input, select, textarea")) target.blur();
      actions.escape();
      return;
    }
    if (target.matches("input, select, textarea")) return;
    const inPanel = target.closest("#panel") !== null;
    const act = new Map([
      ["j", () => actions.move(1)],
      ["k", () => actions.move(-1)],
      ["/", actions.search],
      ["m", actions.view],
      ...(inPanel ? [] : /** @type {[string, () => void][]} */ ([["ArrowDown", () => actions.move(1)], ["ArrowUp", () => actions.move(-1)]])),
      ...(inPanel || target.matches("button, summary, a") ? [] : /** @type {[string, () => void][]} */ ([["Enter", actions.open]])),
    ]).get(event.key);
    if (!act) return;
    event.preventDefault();
    act();
  });
}

/** On paper: the opened test with all that is folded, else figures and the whole list.
 * @param {() => Entry | null} opened @param {(all: boolean) => void} showAll */
function listenToPrint(opened, showAll) {
  /** @type {HTMLDetailsElement[]} */
  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    if (!opened()) showAll(true);
    unfolded = [.../** @type {NodeListOf<HTMLDetailsElement>} */ (document.querySelectorAll("#panel details:not([open])"))];
    for (const details of unfolded) {
      details.open = true;
      details.dispatchEvent(new Event("toggle"));
    }
  });
  window.addEventListener("afterprint", () => {
    for (const details of unfolded) details.open = false;
    if (!opened()) showAll(false);
  });
}

blockValue("index").then(start).catch((error) => {
  fill(byId("top"), el("h1", {}, "Evaluation results"), el("p", { class: "reason" }, `This page cannot be shown: ${error instanceof Error ? error.message : error}. It needs a browser of 2023 or later.`));
});
