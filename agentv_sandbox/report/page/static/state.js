// What is shown, kept in the address after "#", so that a link shows the same to others.

const FILTERS = ["suite", "target", "tag", "grader", "reason", "run", "change", "differs", "rating", "score"];

/** Columns of the list that are shown when asked for, in the order of the block `asked`. */
const ASKED = ["expected", "criteria", "input"];

/**
 * @typedef {{q: string, verdict: string[], filters: Map<string, string>, columns: string[], sort: string, view: string, test: string,
 *   of: string, on: string, at: string, trial: string}} State
 */

/** @returns {State} */
function emptyState() {
  return { q: "", verdict: [], filters: new Map(), columns: [], sort: "", view: "", test: "", of: "", on: "", at: "", trial: "" };
}

/** @param {string} hash @returns {State} */
function readState(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const state = emptyState();
  const text = (/** @type {string} */ key) => (given.get(key) || "").slice(0, 1000);
  state.q = text("q");
  state.verdict = text("verdict").split(",").filter((word) => VERDICTS.includes(word));
  for (const name of FILTERS) if (given.has(name)) state.filters.set(name, text(name));
  state.columns = text("columns").split(",").filter((name) => ASKED.includes(name));
  state.sort = text("sort");
  state.view = text("view");
  state.test = text("test");
  state.of = text("of");
  state.on = text("on");
  state.at = text("at");
  state.trial = text("trial");
  return state;
}

/** @param {State} state @returns {string} */
function writeState(state) {
  const words = new URLSearchParams();
  const put = (/** @type {string} */ key, /** @type {string} */ value) => value && words.set(key, value);
  put("test", state.test);
  put("of", state.of);
  put("on", state.on);
  put("at", state.at);
  put("trial", state.trial);
  put("view", state.view);
  put("q", state.q);
  put("verdict", state.verdict.join(","));
  for (const [name, value] of state.filters) put(name, value);
  put("columns", state.columns.join(","));
  put("sort", state.sort);
  const text = words.toString();
  return text ? `#${text}` : "#";
}
