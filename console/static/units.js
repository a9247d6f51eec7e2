// Rates, sizes and times as text, and the positions of the sliders for rates.

const PREFIXES = ["", "k", "M", "G", "T"];
const UNKNOWN = "not known";

function scaled(value, unit) {
  let power = 0;
  while (power < 4 && Number(value.toPrecision(3)) >= 1000) {
    value /= 1000;
    power += 1;
  }
  return `${power ? value.toPrecision(3) : Math.round(value)} ${PREFIXES[power]}${unit}`;
}

/** A measured rate in three digits, such as "12.3 Mbit/s". */
export const rate = (bits) => (bits == null ? UNKNOWN : scaled(bits, "bit/s"));
export const size = (bytes) => (bytes == null ? UNKNOWN : scaled(bytes, "B"));

/** A rate that was set, with all its digits, such as "64 kbit/s". */
export function exactRate(bits) {
  const power = [3, 2, 1].find((each) => bits >= 1000 ** each) ?? 0;
  return `${Number((bits / 1000 ** power).toPrecision(6))} ${PREFIXES[power]}bit/s`;
}

export function delay(seconds) {
  if (seconds == null) return UNKNOWN;
  return `${seconds < 0.01 ? (seconds * 1000).toFixed(1) : Math.round(seconds * 1000)} ms`;
}

export function age(seconds) {
  if (seconds == null) return UNKNOWN;
  const [s, min, h, d] = [1, 60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
  if (h) return d ? `${d} d ${h % 24} h` : `${h} h ${min % 60} min`;
  return min ? `${min} min` : `${s} s`;
}

export const clock = (unix) => new Date(unix * 1000).toLocaleTimeString("en-GB");
export const date = (unix) =>
  `${new Date(unix * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${clock(unix)}`;

/** How much `part` is of `whole`, in percent; 0 where nothing flows. */
export const percent = (part, whole) => (whole > 0 ? Math.round((100 * part) / whole) : 0);

/** What a session, subflow or link carries both ways, in bit/s. */
export const load = (counted) => (counted.sent_rate ?? 0) + (counted.received_rate ?? 0);

const DECADES = [1e5, 1e6, 1e7, 1e8];

/** The positions of a slider in bit/s, on a log scale; the last one is no rate. */
export const STEPS = [64e3, ...DECADES.flatMap((from) => [1, 1.5, 2.5, 4, 6].map((step) => step * from)), 1e9, null];

/** The position that is nearest to a rate. */
export function position(bits) {
  const last = STEPS.length - 1;
  if (bits === null) return last;
  const distance = (index) => Math.abs(Math.log(STEPS[index] / bits));
  return STEPS.slice(0, last).reduce((best, _, index) => (distance(index) < distance(best) ? index : best), 0);
}

/** A rate as the settings write it: "1500kbit", "2mbit". */
export function rateSetting(bits) {
  if (bits === null) return null;
  return bits % 1e6 === 0 ? `${bits / 1e6}mbit` : `${bits / 1e3}kbit`;
}

/** The opposite of rateSetting. */
export function parseRate(text) {
  const [, amount, prefix] = /^(\d+)([kmg]?)bit$/.exec(text ?? "") ?? [];
  return amount ? Number(amount) * 1000 ** ["", "k", "m", "g"].indexOf(prefix) : null;
}

/** Such as "1 subflow", "2 subflows". */
export const count = (number, one) => `${number.toLocaleString("en")} ${one}${number === 1 ? "" : "s"}`;
