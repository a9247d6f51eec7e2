// The cards of links and paths.

import { html, useMemo, useState } from "./vendor/preact-htm.module.js";
import { usePolled } from "./api.js";
import { Chart, PAIR, SPANS, stack } from "./chart.js";
import { fromServer, NOTHING, stacked } from "./history.js";
import { RateSlider, RoleSelect } from "./steering.js";
import { age, clock, delay, load, parseRate, percent, rate, size } from "./units.js";

/** What a card calls the two directions; the first one is drawn as an area. */
const DIRECTIONS = {
  wan: [["received", "Download"], ["sent", "Upload"]],
  path: [["sent", "To clients"], ["received", "From clients"]],
};

function colourName(links, name) {
  const index = links.findIndex((link) => link.name === name);
  return index < 0 ? "--muted" : `--c${index % 8}`;
}

/** A look with the access links by their names. Daemons have them by rank: a change of a role would take a link's place
 *  and colour, and the focus from the control that made it. */
export function placed(look) {
  const of = (kind) => look.links.filter((link) => link.kind === kind);
  // lte2 comes before lte10; lte1 and lte01 are not the same.
  const order = ({ name: a }, { name: b }) => a.localeCompare(b, "en", { numeric: true }) || (a < b ? -1 : 1);
  return { ...look, links: [...of("wan").sort(order), ...of("path")] };
}

/** The colour of a link or path, by its place among all; it is the same in all views. */
export const colour = (links, name) => ({ "--c": `var(${colourName(links, name)})` });

const Now = ({ time }) => html`<span class="muted" aria-hidden="true">${time ? clock(time) : "now"}</span>`;

function Rates({ link, span, history }) {
  const [point, setPoint] = useState(null);
  const directions = DIRECTIONS[link.kind];
  const nothing = history.times.map(() => null);
  const series = history.links[link.name] ?? { sent: nothing, received: nothing };
  const time = history.times[point];
  const shown = directions.map(([field, name]) => [name, time ? series[field][point] : link[`${field}_rate`]]);
  const most = (field) => rate(series[field].reduce((best, value) => Math.max(best, value ?? 0), 0));
  const texts = directions.map(([field, name]) => `${name} ${rate(link[`${field}_rate`])}, at most ${most(field)}`);
  return html`
    <${Chart} span=${span} times=${history.times} rates=${directions.map(([field]) => series[field])} drawn=${PAIR}
      onPoint=${setPoint} text=${`Chart of ${link.name}, last ${span.name}. ${texts.join(". ")}.`} />
    <div class="rates">
      <dl>${shown.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${rate(value)}</dd></div>`)}</dl>
      <${Now} time=${time} />
    </div>`;
}

/** What all paths carry both ways, one on top of the other. */
function Stack({ look, paths, span, history }) {
  const [point, setPoint] = useState(null);
  const names = paths.map(({ name }) => name);
  const sums = useMemo(() => stacked(history, names), [history]);
  const drawn = useMemo(() => stack(names.map((name) => colourName(look.links, name))), []);
  const time = history.times[point];
  const alone = (at) => sums[at][point] === null ? null : sums[at][point] - (sums[at - 1]?.[point] ?? 0);
  const texts = paths.map((path) => `${path.name} ${rate(load(path))}`);
  return html`<article class="card" aria-labelledby="all-paths">
    <header><h3 id="all-paths">All paths</h3><span class="muted">both ways, stacked</span></header>
    <${Chart} span=${span} times=${history.times} rates=${sums} drawn=${drawn} onPoint=${setPoint}
      text=${`Chart of all paths, stacked, last ${span.name}. ${texts.join(". ")}.`} />
    <div class="rates stacked">
      <dl>${paths.map((path, at) => html`<div key=${path.name} style=${colour(look.links, path.name)}>
        <dt>${path.name}</dt><dd>${rate(time ? alone(at) : load(path))}</dd></div>`)}</dl>
      <${Now} time=${time} />
    </div>
  </article>`;
}

const Bar = ({ filled, children }) => html`<div class="fact">
  <span>${children}</span>
  <div class="bar" aria-hidden="true"><span style=${{ width: `${Math.min(filled, 100)}%` }}></span></div>
</div>`;

function Facts({ link, total }) {
  const share = percent(load(link), total);
  const known = [["download", "down"], ["upload", "up"]].filter(([field]) => link[field] !== null);
  const carried = known.map(([field, way]) => `${rate(link[field])} ${way}`).join(", ");
  return html`
    <${Bar} filled=${share}>Carries ${share} % of all<//>
    ${link.cap !== null && html`<${Bar} filled=${percent(link.used, link.cap)}>
      Used ${size(link.used)} of its monthly ${size(link.cap)}, ${size(Math.max(0, link.cap - link.used))} left<//>`}
    <ul class="facts">
      ${link.rtt !== null && html`<li>Round-trip time ${delay(link.rtt)}</li>`}
      ${link.loss !== null && html`<li>${percent(link.loss, 1)} % of the last probes lost</li>`}
      ${link.kind === "path" && html`<li>${link.throttled ?? 0} of ${link.subflows ?? 0} subflows limited</li>`}
      ${carried && html`<li>Known to carry ${carried}</li>`}
    </ul>`;
}

function Steering({ id, link, ...others }) {
  const slider = (key, label, bits, none, request) => html`<${RateSlider} id=${`${id}-${key}`} label=${label}
    subject=${link.name} bits=${bits} none=${none} request=${request} ...${others} />`;
  if (link.kind === "path") {
    const request = (value) => ["limit", { path: link.name, rate: value }];
    return slider("limit", "Limit", parseRate(link.limit), "no limit", request);
  }
  const ofLink = (key, label) =>
    slider(key, label, link[key], "as in the settings", (value) => ["link", { link: link.name, key, value }]);
  return html`
    <${RoleSelect} id=${`${id}-use`} link=${link} ...${others} />
    <details><summary>Rates</summary>${ofLink("download", "Download")}${ofLink("upload", "Upload")}</details>`;
}

function Card({ id, link, look, span, history, total, manages }) {
  return html`<article class="card" aria-labelledby=${id} style=${colour(look.links, link.name)}>
    <header>
      <span class="dot" aria-hidden="true"></span>
      <h3 id=${id}>${link.name}</h3>
      <span class="muted">${link.interface}</span>
      <span class=${`state ${link.state}`}>${link.state}${link.age !== null && ` for ${age(link.age)}`}</span>
    </header>
    ${link.reason && html`<p class="reason">${link.reason}</p>`}
    <${Rates} key=${span.name} link=${link} span=${span} history=${history} />
    <${Facts} link=${link} total=${total} />
    ${link.advice.length > 0 && html`<ul class="advice" aria-label="Advice">
      ${link.advice.map((text) => html`<li key=${text}>${text}</li>`)}
    </ul>`}
    <${Steering} id=${id} link=${link} time=${look.time} manages=${manages} />
  </article>`;
}

const WITH_LINKS = ["throttler", "router", "gateway"];

function emptyText(services) {
  const names = services.filter((each) => each.running && WITH_LINKS.includes(each.name)).map((each) => each.name);
  if (names.length) return `The ${names.join(" and the ")} runs, but the settings name no link or path.`;
  return "No throttler and no router answer here: once one of them runs, its links appear on this page.";
}

const Spans = ({ span, onChange }) => html`<fieldset class="segments">
  <legend class="hidden">Time span of the charts</legend>
  ${SPANS.map((each) => html`<label key=${each.name}>
    <input type="radio" name="span" checked=${each === span} onChange=${() => onChange(each)} />
    <span>${each.name}</span>
  </label>`)}
</fieldset>`;

/** All cards. `past` is the history of the last five minutes. */
export function Links({ look, past, manages }) {
  const [span, setSpan] = useState(SPANS[0]);
  const path = span === SPANS[0] ? null : `history?seconds=${span.seconds}`;
  const { data, error, path: answered } = usePolled(path, span.seconds / 1440);
  const older = useMemo(() => (data && answered === path ? fromServer(data) : NOTHING), [data, answered, path]);
  const history = path ? older : past;
  const total = look.links.reduce((sum, link) => sum + load(link), 0);
  const paths = look.links.filter((link) => link.kind === "path");
  const key = [span, ...paths].map(({ name }) => name).join();
  return html`<section aria-labelledby="links">
    <div class="heading"><h2 id="links">Links</h2><${Spans} span=${span} onChange=${setSpan} /></div>
    <p role="status" class="error">${path && error}</p>
    ${look.links.length === 0 && html`<p class="empty">${emptyText(look.services)}</p>`}
    <div class="cards">
      ${paths.length > 1 && html`<${Stack} key=${key} look=${look} paths=${paths} span=${span} history=${history} />`}
      ${look.links.map((link, at) => html`<${Card} key=${link.name} id=${`link-${at}`} link=${link}
        look=${look} span=${span} history=${history} total=${total} manages=${manages} />`)}
    </div>
  </section>`;
}
