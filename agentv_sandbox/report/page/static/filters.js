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
  ["differs", (entry) => entry.differs || []],
  ["rating", ratingFacet],
  ["change", (entry) => changesOf(entry).flatMap((change) => [change[3], ...(change[5] ? ["flaky"] : [])])],
]);

/** @param {number} value */
const bucketOf = (value) => Math.max(0, Math.min(Math.floor(value * 10 + 1e-9), 9));

/** Worst first. */
const VERDICTS = ["error", "fail", "skipped", "open", "pass"];

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
  ...ASKED.map((key, n) => [key, (/** @type {Entry} */ entry) => askedTexts[entry.number]?.[n] || "\uffff"]),
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

/** What each test asked, by number of the entry; empty until it is read. @type {string[][]} */
let askedTexts = [];
/** @type {Promise<void> | null} */
let askedReading = null;

/** @returns {Promise<void>} */
function readAskedTexts() {
  askedReading ||= blockValue("asked").then((texts) => {
    askedTexts = texts;
  });
  return askedReading;
}

/** @param {Entry} entry */
function haystack(entry) {
  entry.haystack ||= [entry.test, entry.suite, entry.target, entry.reason, ...entry.tags, ...entry.reasons]
    .join("\n")
    .toLowerCase();
  return entry.haystack;
}

/** Numbers that an expression of the search compares. @type {Map<string, (entry: Entry) => number | null>} */
const MEASURES = new Map(/** @type {[string, (entry: Entry) => number | null][]} */ ([
  ["score", (entry) => entry.score],
  ["seconds", (entry) => entry.seconds],
  ["tokens", (entry) => entry.tokens],
  ["cost", (entry) => entry.cost],
]));

/** What a word of the search asks for: `score<0.5`, `target:NAME`, `verdict:fail`, `-WORD` for its opposite, or a text.
 * @param {string} word lower case @returns {(entry: Entry) => boolean} */
function condition(word) {
  if (word.length > 1 && word.startsWith("-")) {
    const inner = condition(word.slice(1));
    return (entry) => !inner(entry);
  }
  const [, name = "", sign = "", text = ""] = /^([a-z]+)(<=|>=|<|>|=|:)(.+)$/.exec(word) || [];
  const measure = MEASURES.get(name);
  const wanted = Number(text);
  if (measure && sign !== ":" && Number.isFinite(wanted)) {
    const holds = COMPARISONS.get(sign);
    return (entry) => {
      const value = measure(entry);
      return value !== null && holds !== undefined && holds(value, wanted);
    };
  }
  const facet = name === "verdict" ? (/** @type {Entry} */ entry) => [entry.verdict] : FACETS.get(name);
  if (facet && (sign === ":" || sign === "=")) return (entry) => facet(entry).some((value) => (sign === ":" ? value.toLowerCase().includes(text) : value.toLowerCase() === text));
  return (entry) => haystack(entry).includes(word) || (searchTexts[entry.number] || "").includes(word);
}

/** @type {Map<string, (a: number, b: number) => boolean>} */
const COMPARISONS = new Map([
  ["<", (a, b) => a < b],
  ["<=", (a, b) => a <= b],
  [">", (a, b) => a > b],
  [">=", (a, b) => a >= b],
  ["=", (a, b) => Math.abs(a - b) < 0.0005],
]);

/** Say of each entry whether its test has other verdicts with other targets, or in other runs. @param {Entry[]} entries */
function noteDifferences(entries) {
  /** @type {Map<string, Entry[]>} */
  const tests = new Map();
  for (const entry of entries) {
    const key = JSON.stringify([entry.suite, entry.test]);
    tests.set(key, [...(tests.get(key) || []), entry]);
  }
  const differ = (/** @type {Entry[]} */ some) => new Set(some.map((each) => each.verdict)).size > 1;
  for (const same of tests.values()) {
    if (!differ(same)) continue;
    for (const entry of same) {
      const targets = differ(same.filter((each) => each.run === entry.run)) && "between targets";
      const runs = differ(same.filter((each) => each.target === entry.target)) && "between runs";
      entry.differs = /** @type {string[]} */ ([targets, runs].filter(Boolean));
    }
  }
}

/** Entries that match, in the order asked for.
 * @param {Entry[]} entries @param {State} state @param {string} [except] a filter that does not count */
function matching(entries, state, except = "") {
  const conditions = state.q.toLowerCase().split(/\s+/).filter(Boolean).map(condition);
  const wanted = [...state.filters].filter(([name]) => name !== except);
  return entries.filter((entry) => {
    if (except !== "verdict" && state.verdict.length && !state.verdict.includes(entry.verdict)) return false;
    for (const [name, value] of wanted) if (!FACETS.get(name)?.(entry).includes(value)) return false;
    return conditions.every((holds) => holds(entry));
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
