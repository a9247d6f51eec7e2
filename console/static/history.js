// What the links have carried, as arrays for the charts. These functions change nothing that they are given.

const SECONDS = 300;
const FIELDS = ["sent", "received"];

export const NOTHING = { times: [], links: {} };

const byField = (values) => Object.fromEntries(FIELDS.map((field) => [field, values(field)]));

/** The history that the server sent; where it has no values for some time, a null interrupts the line. */
export function fromServer({ times, step, links }) {
  const longest = Math.max(10, 3 * step);
  const rows = times.flatMap((time, row) => (row && time - times[row - 1] > longest ? [null, row] : [row]));
  const pick = (values) => rows.map((row) => (row === null ? null : values[row]));
  const series = Object.entries(links).map(([name, link]) => [name, byField((field) => pick(link[field]))]);
  return {
    times: rows.map((row, at) => (row === null ? times[rows[at - 1]] + step : times[row])),
    links: Object.fromEntries(series),
  };
}

/** What these links carry both ways, each on top of those before it; null where nothing is known of any. */
export function stacked({ times, links }, names) {
  const values = (name, at) => FIELDS.map((field) => links[name]?.[field][at] ?? null);
  const isKnown = (at) => names.some((name) => values(name, at).some((value) => value !== null));
  const sums = [times.map((_, at) => (isKnown(at) ? 0 : null))];
  for (const name of names) {
    const onTop = (below, at) => (below === null ? null : values(name, at).reduce((sum, value) => sum + value, below));
    sums.push(sums.at(-1).map(onTop));
  }
  return sums.slice(1);
}

/** The last five minutes with one more look. Points that are not older than it go: the clock was set back. */
export function append({ times, links }, look) {
  const start = times.filter((time) => time <= look.time - SECONDS).length;
  const end = times.filter((time) => time < look.time).length;
  const grown = (old, value) => [...old.slice(start, end), value].slice(-SECONDS);
  const nothing = Array(times.length).fill(null);
  const now = Object.fromEntries(look.links.map((link) => [link.name, link]));
  // A link that is gone stays until all its points have left the window.
  const isKept = (name) => now[name] || FIELDS.some((field) => links[name][field].some((value) => value !== null));
  const names = [...new Set([...Object.keys(links), ...Object.keys(now)])].filter(isKept);
  const series = (name) =>
    byField((field) => grown(links[name]?.[field] ?? nothing, now[name]?.[`${field}_rate`] ?? null));
  return { times: grown(times, look.time), links: Object.fromEntries(names.map((name) => [name, series(name)])) };
}
