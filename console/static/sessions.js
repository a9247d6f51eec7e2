// Sessions as rows, each with a bar that is made of its subflows' shares.

import { html, useRef, useState } from "./vendor/preact-htm.module.js";
import { get, runs, Status, usePolled, useReport } from "./api.js";
import { colour } from "./links.js";
import { Table } from "./tables.js";
import { age, delay, load, percent, rate } from "./units.js";

const bytes = (subflow) => (subflow.sent ?? 0) + (subflow.received ?? 0);
const ends = (subflow) => `${subflow.local} ${subflow.remote}`;

/** Where nothing flows, the shares are those of all bytes so far. */
function Shares({ subflows, links }) {
  const weight = subflows.some(load) ? load : bytes;
  const whole = subflows.reduce((sum, subflow) => sum + weight(subflow), 0);
  const share = (subflow) => percent(weight(subflow), whole);
  const limited = (subflow) => (subflow.throttled ? ", limited" : "");
  const text = subflows.map((each) => `${each.path ?? "no path"} ${share(each)} %${limited(each)}`).join("; ");
  return html`<span class="shares" role="img" aria-label=${text} title=${text}>
    ${subflows.map((each) => html`<span key=${ends(each)} class=${each.throttled ? "limited" : ""}
      style=${{ ...colour(links, each.path), flexGrow: share(each) }}></span>`)}
  </span>`;
}

function Explanation({ token }) {
  const [subflows, setSubflows] = useState([]);
  const [status, report] = useReport();
  const ask = () =>
    report(async () => {
      const answer = await get(`explain/${encodeURIComponent(token)}`);
      setSubflows(answer.subflows);
      return answer.subflows.length ? "" : "The throttler does not know this session any more.";
    });
  const words = ({ applies, reason }) => (applies ? "applies" : `does not apply${reason ? `: ${reason}` : ""}`);
  return html`
    <button type="button" onClick=${ask}>Why?</button>
    <${Status} status=${status} />
    <div role="status">${subflows.map((each) => html`<div key=${each.subflow} class="why">
      <p>${each.subflow}, ${each.path ? `path ${each.path}` : "no path"}</p>
      <ul>${each.rules.map((rule) => html`<li key=${rule.rule}>Rule ${rule.rule} ${words(rule)}.</li>`)}</ul>
    </div>`)}</div>`;
}

function Details({ session, links }) {
  const path = (each) => html`<span class="dot" style=${colour(links, each.path)}></span> ${each.path ?? "none"}`;
  const rule = (each) => each.rule ?? (each.counted_by ? `${each.counted_by} (only counts)` : "none");
  const rows = session.subflows.map((each) => [
    ...[ends(each), path(each), each.local, each.remote, each.backup ? "yes" : "no"],
    ...[delay(each.rtt), rate(load(each)), rule(each)],
  ]);
  const heads = ["Path", "Local", "Remote", "Backup", "Round trip", "Rate", "Rule"];
  return html`
    <${Table} label=${`Subflows of ${session.client}, ${session.token}`} heads=${heads} rows=${rows} />
    <${Explanation} token=${session.token} />`;
}

function Row({ session, links }) {
  const [isOpen, setIsOpen] = useState(false);
  const id = `session-${session.token}`;
  const toggle = () => setIsOpen(!isOpen);
  return html`<li>
    <button type="button" class="row" aria-expanded=${String(isOpen)} aria-controls=${id} onClick=${toggle}>
      <span class="client">${session.client}</span> <span class="muted">${age(session.age)}</span>
      ${" "}<span class="number">${rate(load(session))}</span> <${Shares} subflows=${session.subflows} links=${links} />
    </button>
    <div id=${id} class="details" hidden=${!isOpen}>
      ${isOpen && html`<${Details} session=${session} links=${links} />`}
    </div>
  </li>`;
}

/** The rows keep their places while the pointer or the focus is among them. */
function SessionList({ sessions, links }) {
  const list = useRef(null);
  const places = useRef(new Map());
  const isSteady = list.current?.matches(":hover, :focus-within");
  const place = (session) => places.current.get(session.token) ?? sessions.length + places.current.size;
  const rows = isSteady ? [...sessions].sort((a, b) => place(a) - place(b)) : sessions;
  places.current = new Map(rows.map((session, index) => [session.token, index]));
  return html`<ul class="sessions" ref=${list}>
    ${rows.map((session) => html`<${Row} key=${session.token} session=${session} links=${links} />`)}
  </ul>`;
}

/** A home router has no throttler; the doctor knows one also while its daemon is down. */
export const mayHaveSessions = (look) =>
  look && (runs(look, "throttler") || !(runs(look, "router") || look.examined?.role === "router"));

const Unknown = () => html`<p class="empty">No throttler answers here: which sessions are open is not known.</p>`;

/** The sessions that carry most now. */
export function Busiest({ look }) {
  const { sessions, sessions_total: total, links } = look;
  const isKnown = runs(look, "throttler");
  return html`<section aria-labelledby="sessions">
    <div class="heading">
      <h2 id="sessions">Sessions</h2>
      ${total > 1 && html`<a href="#/sessions">Find among all ${total.toLocaleString("en")}</a>`}
    </div>
    ${!isKnown && html`<${Unknown} />`}
    ${isKnown && total === 0 && html`<p class="empty">No session of Multipath TCP is open now.</p>`}
    <${SessionList} sessions=${sessions} links=${links} />
  </section>`;
}

const ORDERS = Object.entries({ "-sent_rate": "rate", age: "age", "-throttled": "limited subflows", client: "client" });
const PAGE = 100;

/** Which sessions are on the page, and the buttons that turn it. They stay where they are, and keep the focus: one that
 *  leads nowhere does nothing. */
function Pages({ found: { offset, sessions, total }, turn }) {
  const number = (count) => count.toLocaleString("en");
  const button = (text, to, leads) => html`
    <button type="button" aria-disabled=${String(!leads)} onClick=${() => leads && turn(to)}>${text}</button>`;
  // From beyond the end, as after sessions have ended, back to the last page.
  const previous = Math.max(0, Math.min(offset - PAGE, Math.floor((total - 1) / PAGE) * PAGE));
  const part = sessions.length > 0 && `${number(offset + 1)} to ${number(offset + sessions.length)}`;
  return html`<nav class="heading" aria-label="Pages of sessions">
    <p class="muted"><span role="status">${part || "None"}</span> of ${number(total)} sessions that fit</p>
    ${(total > PAGE || offset > 0) && html`<div>
      ${button("Previous", previous, offset > 0)}
      ${" "}${button("Next", offset + PAGE, offset + PAGE < total)}
    </div>`}
  </nav>`;
}

/** The routers to choose from: also the one that is chosen while it is revoked, so that it can be given up. */
export const choosable = (routers, chosen) =>
  chosen === "" || routers.some(({ name }) => name === chosen) ? routers : [...routers, { name: chosen }];

/** All sessions, with a filter. */
export function Sessions({ look, manages }) {
  const [asked, setAsked] = useState({ client: "", path: "", rule: "", router: "", sort: "-sent_rate", offset: 0 });
  // What is typed has a state of its own: each look draws the page anew, and would take back what is not yet asked.
  const [typed, setTyped] = useState("");
  const given = Object.entries(asked).filter(([key, value]) => value !== "" && (manages || key !== "router"));
  const { data, error } = usePolled(`sessions?${new URLSearchParams([...given, ["limit", PAGE]])}`, 2);
  const known = usePolled(manages && runs(look, "gateway") ? "routers" : null, 60).data?.routers ?? [];
  const routers = manages ? choosable(known, asked.router) : [];
  const set = (key) => ({ target }) => setAsked({ ...asked, offset: 0, [key]: target.value.trim() });
  const turn = (offset) => setAsked({ ...asked, offset });
  const select = (key, label, choices) => html`<label>${label}
    <select value=${asked[key]} onChange=${set(key)}>
      ${choices.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
    </select>
  </label>`;
  const named = (any, documents) => [["", any], ...documents.map(({ name }) => [name, name])];
  return html`<section aria-labelledby="sessions">
    <h2 id="sessions">Sessions</h2>
    <form class="filter" onSubmit=${(event) => event.preventDefault()}>
      <label>Client (address or network)<input type="search" value=${typed} onChange=${set("client")}
        onInput=${({ target }) => setTyped(target.value)} /></label>
      ${select("path", "Path", named("any path", look.links.filter((link) => link.kind === "path")))}
      ${select("rule", "Rule", named("any rule", look.rules))}
      ${routers.length > 0 && select("router", "Router", named("any router", routers))}
      ${select("sort", "Sort by", ORDERS)}
    </form>
    <p role="status" class="error">${error}</p>
    ${!runs(look, "throttler") && html`<${Unknown} />`}
    ${data && html`
      <${Pages} found=${data} turn=${turn} />
      <${SessionList} key=${`${asked.sort} ${data.offset}`} sessions=${data.sessions} links=${look.links} />`}
  </section>`;
}
