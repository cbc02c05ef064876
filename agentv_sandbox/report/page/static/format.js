// Numbers as people read them. Data may hold any number: what is not finite or absurdly large stays short.

/** @param {unknown} value @param {number} digits @returns {string} */
function fixed(value, digits) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 1e12) return value.toExponential(2);
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** @param {unknown} value */
const score = (value) => fixed(value, 2);

/** @param {unknown} value */
const count = (value) => fixed(value, 0);

/** @param {unknown} value a share from 0 to 1 @param {number} [digits] */
const percent = (value, digits = 0) => (typeof value === "number" ? `${fixed(value * 100, digits)}%` : "–");

/** @param {[number, number] | null | undefined} ends */
const interval = (ends) => (ends ? `${percent(ends[0])} to ${percent(ends[1])}` : "");

/** @param {unknown} value in US dollars */
function dollars(value) {
  if (typeof value !== "number") return "–";
  return `$${fixed(value, Math.abs(value) >= 1 ? 2 : 4)}`;
}

/** @param {unknown} seconds */
function duration(seconds) {
  if (typeof seconds !== "number" || !Number.isFinite(seconds)) return "–";
  if (seconds >= 5400) return `${fixed(seconds / 3600, 1)} h`;
  if (seconds >= 120) return `${fixed(seconds / 60, 1)} min`;
  if (seconds < 0.0995) return `${fixed(seconds * 1000, seconds < 0.00995 ? 1 : 0)} ms`;
  return `${fixed(seconds, seconds < 10 ? 1 : 0)} s`;
}

/** @param {number | null} value @param {number} digits */
const signed = (value, digits) => (value === null ? "–" : `${value > 0 ? "+" : ""}${fixed(value, digits)}`);

/** @param {number} number @param {string} word */
const counted = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
