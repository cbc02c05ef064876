// One test, opened beside the list.

class Panel {
  /** @param {HTMLElement} home @param {Index} index
   * @param {{close: () => void, go: (by: number) => void, open: (entry: Entry) => void, trial: (trial: string) => void}} actions
   * @param {Ratings} ratings */
  constructor(home, index, actions, ratings) {
    this.home = home;
    this.index = index;
    this.actions = actions;
    this.ratings = ratings;
    /** @type {Entry | null} */
    this.entry = null;
    this.trial = "";
  }

  /** @param {Entry | null} entry @param {string} trial */
  async show(entry, trial) {
    if (entry === this.entry && trial === this.trial) return;
    [this.entry, this.trial] = [entry, trial];
    document.body.classList.toggle("opened", entry !== null);
    this.home.hidden = entry === null;
    if (!entry) {
      fill(this.home);
      return;
    }
    const body = el("div", { class: "panel-body" }, el("p", { class: "soft" }, "Reading…"));
    fill(this.home, this.heading(entry), body);
    this.home.scrollTop = 0;
    try {
      const details = await detailsOf(entry.number);
      if (this.entry !== entry || this.trial !== trial) return;
      const one = details.trials?.find((/** @type {any} */ each) => String(each.trial) === trial)?.details;
      fill(body, elsewhere(this.index, entry, this.actions.open), this.trials(details), this.ratings.part(entry), testSections(one || details, entry));
    } catch (error) {
      fill(body, el("p", { class: "reason" }, `This test cannot be shown: ${error instanceof Error ? error.message : "unreadable"}`));
    }
  }

  /** @param {Entry} entry */
  heading(entry) {
    const link = button("Copy link", () => void copyLink(link), { class: "small" });
    const run = this.index.runs.length > 1 && [datum(this.index.runs[entry.run].name), " · "];
    return el("header", { class: "panel-head" },
      el("div", { class: "panel-buttons" },
        button("‹", () => this.actions.go(-1), { "aria-label": "Previous test", title: "previous (k)" }),
        button("›", () => this.actions.go(1), { "aria-label": "Next test", title: "next (j)" }),
        link,
        button("✕", () => this.actions.close(), { "aria-label": "Close", title: "close (Escape)" })),
      el("h2", { id: "panel-title", tabindex: "-1" }, badge(entry.verdict), " ", testName(entry)),
      el("p", { class: "soft" }, run, datum(entry.suite), entry.target && [" · ", datum(entry.target)], [
        entry.score === null ? null : ` · score ${score(entry.score)}`, ` · ${duration(entry.seconds)}`,
        entry.tokens === null ? null : ` · ${count(entry.tokens)} tokens`, entry.cost === null ? null : ` · ${dollars(entry.cost)}`,
        entry.attempts && entry.attempts > 1 ? ` · ${entry.attempts} attempts` : null]),
      entry.tags.length > 0 && el("p", { class: "tags" }, entry.tags.map((tag) => el("span", { class: "tag" }, datum(tag)))));
  }

  /** @param {any} details @returns {Child} */
  trials(details) {
    if (!details.trials?.length) return null;
    const rows = details.trials.map((/** @type {any} */ each) => [
      each.details ? button(`trial ${each.trial}`, () => this.actions.trial(String(each.trial)), { class: "small", "aria-pressed": String(this.trial === String(each.trial)) }) : `trial ${each.trial}`,
      [badge(each.verdict), each.cause && [" ", datum(each.cause)]].flat(),
      score(each.score), duration(each.seconds), dollars(each.cost),
      each.graders.map((/** @type {any[]} */ [name, , value], /** @type {number} */ n) => [n > 0 && ", ", datum(name), ` ${score(value)}`]).flat(),
    ]);
    return part("Trials",
      details.trials_words && el("p", { class: "soft" }, datum(details.trials_words)),
      table(["trial", "verdict", "score#", "time#", "cost#", "graders"], rows, "Trials"),
      details.trials_left_out > 0 && el("p", { class: "soft" }, `… and ${details.trials_left_out} more; index.jsonl lists them all`),
      this.trial && el("p", {}, `Below: trial ${this.trial}. `, button("Show the one that decides", () => this.actions.trial(""), { class: "small" })));
  }

  focus() {
    document.getElementById("panel-title")?.focus({ preventScroll: true });
  }
}

/** @param {HTMLElement} place */
async function copyLink(place) {
  try {
    await navigator.clipboard.writeText(location.href);
    place.textContent = "Copied";
  } catch {
    const field = /** @type {HTMLInputElement} */ (el("input", { value: location.href, readonly: true, "aria-label": "Link to this test" }));
    place.replaceWith(field);
    field.select();
  }
}

/** The same test in other runs and with other targets, with their answers side by side.
 * @param {Index} index @param {Entry} entry @param {(entry: Entry) => void} open @returns {Child} */
function elsewhere(index, entry, open) {
  const same = index.rows.filter((each) => each.test === entry.test && each.suite === entry.suite).sort((a, b) => a.run - b.run || (a.target < b.target ? -1 : 1));
  if (same.length < 2) return null;
  const shown = same.slice(0, 24);
  const rows = shown.map((each) => [
    each === entry ? el("strong", {}, placeOf(index, each)) : button(placeOf(index, each), () => open(each), { class: "small" }),
    badge(each.verdict), score(each.score), duration(each.seconds), dollars(each.cost), datum(each.reason),
  ]);
  const changes = changesOf(entry).map((change) => el("p", {}, changeBadge(change), " ", datum(changeWords(change))));
  const answers = fold("Answers side by side", () => {
    const box = el("div", { class: "side-by-side" });
    Promise.all(shown.map((each) => detailsOf(each.number))).then((all) => fill(box, all.map((details, n) =>
      el("article", {}, el("h4", {}, badge(shown[n].verdict), " ", datum(placeOf(index, shown[n]))), pre(details.answer || details.error || details.note || "There is no answer.", "Answer"),
        details.graders?.map((/** @type {any} */ grader) => graderView(grader, []))))));
    return box;
  });
  return part("Side by side", changes, table(["where", "verdict", "score#", "time#", "cost#", "reason"], rows, "The same test elsewhere"), answers);
}

/** @param {Index} index @param {Entry} entry */
function placeOf(index, entry) {
  const words = [index.runs.length > 1 && index.runs[entry.run].name, entry.target, entry.trial && `trial ${entry.trial}`];
  return words.filter(Boolean).join(" · ") || entry.test;
}
