// A chart of rates over time, drawn by uPlot.

import { html, useEffect, useRef } from "./vendor/preact-htm.module.js";
import { exactRate } from "./units.js";

const HEIGHT = 140;
const HOUR = 3600;
const TIME = { hour: "2-digit", minute: "2-digit" };

/** The spans that can be chosen: `marks` are the steps of the axis in seconds, `text` how it writes a time. */
export const SPANS = [
  { seconds: 300, name: "5 minutes", marks: [60, 120, 300], text: TIME },
  { seconds: 24 * HOUR, name: "day", marks: [3 * HOUR, 6 * HOUR, 12 * HOUR], text: TIME },
  { seconds: 168 * HOUR, name: "week", marks: [24 * HOUR, 48 * HOUR], text: { weekday: "short", day: "numeric" } },
];

/** Reads a CSS variable at each drawing, so that the chart follows the theme. */
const css = (name, opacity = "") => (plot) => getComputedStyle(plot.root).getPropertyValue(name).trim() + opacity;

const LINE = { width: 1.5, points: { show: false } };

/** Two rates: an area, and a dashed line. */
export const PAIR = {
  series: [{ ...LINE, stroke: css("--c"), fill: css("--c", "33") }, { ...LINE, stroke: css("--muted"), dash: [4, 3] }],
  bands: [],
};

/** Rates of which each is on top of those before it, in these colours. */
export const stack = (colours) => ({
  series: colours.map((name) => ({ ...LINE, stroke: css(name), fill: css(name, "66") })),
  bands: colours.slice(1).map((_, below) => ({ series: [below + 2, below + 1] })),
});

function options(width, span, shown, drawn, onPoint) {
  const written = new Intl.DateTimeFormat("en-GB", span.text);
  const times = (_, marks) => marks.map((time) => written.format(time * 1000));
  const rates = (_, marks) => marks.map(exactRate);
  const axis = { stroke: css("--muted"), font: "11px system-ui, sans-serif", ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false }, sync: { key: "links" } },
    hooks: { setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)] },
    scales: {
      x: { range: () => shown.current },
      // At least 100 kbit/s, so that a few packets do not fill the chart.
      y: { range: (_, __, most) => [0, 1.1 * Math.max(most ?? 0, 1e5)] },
    },
    axes: [
      { ...axis, size: 24, space: 48, incrs: span.marks, grid: { show: false }, values: times },
      { ...axis, size: 72, space: 36, grid: { stroke: css("--line"), width: 1 }, values: rates },
    ],
    series: [{}, ...drawn.series],
    bands: drawn.bands,
  };
}

/** `rates` are `drawn` as PAIR or as a stack() says at first. `onPoint` gets the index under the pointer, or null. */
export function Chart({ span, times, rates, drawn, text, onPoint }) {
  const box = useRef(null);
  const plot = useRef(null);
  const shown = useRef(null);
  const last = times.at(-1) ?? Date.now() / 1000;
  shown.current = [last - span.seconds, last];

  useEffect(() => {
    const empty = [[], ...rates.map(() => [])];
    const made = new window.uPlot(options(box.current.clientWidth, span, shown, drawn, onPoint), empty, box.current);
    const fit = ([{ contentRect }]) => made.setSize({ width: contentRect.width, height: HEIGHT });
    const watcher = new ResizeObserver(fit);
    const theme = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => made.redraw();
    watcher.observe(box.current);
    theme.addEventListener("change", redraw);
    plot.current = made;
    return () => {
      watcher.disconnect();
      theme.removeEventListener("change", redraw);
      made.destroy();
    };
  }, []);
  useEffect(() => {
    if (!document.hidden) plot.current.setData([times, ...rates]);
  }, [times, ...rates]);
  return html`<div class="chart" ref=${box} role="img" aria-label=${text}></div>`;
}
