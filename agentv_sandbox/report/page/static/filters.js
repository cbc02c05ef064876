// Which tests are shown, and in which order.

/** @type {Map<string, (entry: Entry) => string[]>} */
const FACETS = new Map([
  ["suite", (entry) => [entry.suite]],
  ["target", (entry) => [entry.target]],
  ["tag", (entry) => entry.tags],
  ["grader", (entry) => entry.graders.map(([name]) => name)],
  ["reason", (entry) => entry.reasons],
  ["run", (entry) => [String(entry.run)]],
  ["score", (entry) => (entry.score === null ? [] : [String(bucketOf(entry.score))])],
  ["change", (entry) => changesOf(entry).flatMap((change) => [change[3], ...(change[5] ? ["flaky"] : [])])],
]);

/** @param {number} value */
const bucketOf = (value) => Math.max(0, Math.min(Math.floor(value * 10 + 1e-9), 9));

/** Worst first. */
const VERDICTS = ["error", "fail", "open", "pass"];

/** @type {Map<string, (entry: Entry) => string | number>} */
const ORDERS = new Map(/** @type {[string, (entry: Entry) => string | number][]} */ ([
  ["verdict", (entry) => VERDICTS.indexOf(entry.verdict)],
  ["test", (entry) => `${entry.test}\0${entry.suite}`],
  ["target", (entry) => entry.target],
  ["run", (entry) => entry.run],
  ["score", (entry) => entry.score ?? -1],
  ["seconds", (entry) => entry.seconds],
  ["cost", (entry) => entry.cost ?? -1],
  ["tokens", (entry) => entry.tokens ?? -1],
  ["reason", (entry) => entry.reason || "\uffff"],
]));

/** Texts that the search looks at, by number of the entry; empty until they are read. @type {string[]} */
let searchTexts = [];
/** @type {Promise<void> | null} */
let searchReading = null;

/** @returns {Promise<void>} */
function readSearchTexts() {
  searchReading ||= blockValue("search").then((texts) => {
    searchTexts = texts;
  });
  return searchReading;
}

/** @param {Entry} entry */
function haystack(entry) {
  entry.haystack ||= [entry.test, entry.suite, entry.target, entry.reason, ...entry.tags, ...entry.reasons]
    .join("\n")
    .toLowerCase();
  return entry.haystack;
}

/** Entries that match, in the order asked for.
 * @param {Entry[]} entries @param {State} state @param {string} [except] a filter that does not count */
function matching(entries, state, except = "") {
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = [...state.filters].filter(([name]) => name !== except);
  return entries.filter((entry) => {
    if (except !== "verdict" && state.verdict.length && !state.verdict.includes(entry.verdict)) return false;
    for (const [name, value] of wanted) if (!FACETS.get(name)?.(entry).includes(value)) return false;
    return words.every((word) => haystack(entry).includes(word) || (searchTexts[entry.number] || "").includes(word));
  });
}

/** @param {Entry[]} entries @param {string} sort a column, with "-" before it for the greatest first */
function sorted(entries, sort) {
  const order = ORDERS.get(sort.replace(/^-/, ""));
  if (!order) return entries;
  const sign = sort.startsWith("-") ? -1 : 1;
  const keys = new Map(entries.map((entry) => [entry, order(entry)]));
  const key = (/** @type {Entry} */ entry) => /** @type {string | number} */ (keys.get(entry));
  return [...entries].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    return (x < y ? -sign : x > y ? sign : 0) || a.number - b.number;
  });
}

/** Values of a filter with their numbers of tests, the most frequent first.
 * @param {string} name @param {Entry[]} entries @returns {[string, number][]} */
function facetCounts(name, entries) {
  const counts = new Map();
  for (const entry of entries)
    for (const value of new Set(FACETS.get(name)?.(entry))) counts.set(value, (counts.get(value) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}
