// Starts the page, and shows the view that the address names.

import { html, render, useEffect, useRef, useState } from "./vendor/preact-htm.module.js";
import { events, follow, get, runs, usePolled } from "./api.js";
import { Health, isUnknown, isWrong } from "./health.js";
import { append, fromServer, NOTHING } from "./history.js";
import { Bypasses, Devices, Gateway } from "./home.js";
import { Links, placed } from "./links.js";
import { Account, Login } from "./login.js";
import { Fleet, HandOff, Overlay } from "./parts.js";
import { Busiest, mayHaveSessions, Sessions } from "./sessions.js";
import { forgetEnrolment, Routers } from "./routers.js";
import { Journal, Rules } from "./tables.js";
import { age, clock } from "./units.js";

const MENU = [["/", "Overview"], ["/sessions", "Sessions"], ["/rules", "Rules"], ["/routers", "Routers"],
  ["/overlay", "Overlay"], ["/handoff", "Hand-off"], ["/fleet", "Fleet"], ["/health", "Health"], ["/journal", "Journal"]];
/** Views that are there where these services run. */
const PARTS = { "/routers": "gateway", "/overlay": "overlay", "/handoff": "handoff", "/fleet": "fleet" };
const OF_THE_THROTTLER = new Set(["/sessions", "/rules"]);
const NAMES = new Map([...MENU, ["/login", "Log in"]]);

/** The view that the address names. A one-time token is taken out of the address, so that no one reads it there. */
function readAddress() {
  const [path, query] = location.hash.slice(1).split("?");
  const token = new URLSearchParams(query).get("token");
  if (token) history.replaceState(null, "", "#/login");
  return { path: NAMES.has(path) ? path : "/", token };
}

/** What readAddress returns; the focus goes to a view that was chosen. */
function useAddress() {
  const [address, setAddress] = useState(readAddress);
  const isFirst = useRef(true);
  useEffect(() => {
    const changed = () => setAddress(readAddress());
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => {
    document.title = `${NAMES.get(address.path)} - Tributary`;
    if (!isFirst.current) document.querySelector("main").focus();
    isFirst.current = false;
  }, [address.path]);
  return address;
}

const START = { look: null, past: NOTHING, connection: "connecting" };

/** The latest look, the last five minutes, and the state of the connection. */
function useLooks(mayRead, onLost) {
  const [live, setLive] = useState(START);
  const change = (changed) => setLive((last) => ({ ...last, ...changed(last) }));
  useEffect(() => {
    setLive(START);
    if (!mayRead) return undefined;
    const onLook = (look, isFirst) => {
      change(({ past }) => ({ look: placed(look), past: append(past, look), connection: "live" }));
      // If it fails, the charts grow from now on.
      if (isFirst) get("history?seconds=300").then((past) => change(() => ({ past: fromServer(past) })), () => {});
    };
    return follow(onLook, () => {
      change(() => ({ connection: "lost" }));
      onLost();
    });
  }, [mayRead]);
  return live;
}

function connectionText({ connection, look }) {
  if (connection === "live") return "Live";
  if (connection === "connecting") return "Connecting ...";
  return look ? `Connection lost, last seen at ${clock(look.time)}; trying again` : "No answer; trying again";
}

function Header({ path, live, who, mayRead, onLogin }) {
  const isThere = (view) =>
    view in PARTS ? runs(live.look, PARTS[view]) : !OF_THE_THROTTLER.has(view) || mayHaveSessions(live.look);
  const menu = MENU.filter(([each]) => isThere(each));
  const since = (uptime) => (uptime === null ? "runs" : `runs for ${age(uptime)}`);
  const away = (summary) => (summary ? "does not answer" : "does not run");
  const state = (service) => (service.running ? since(service.uptime) : away(service.summary));
  return html`<header class="top">
    <h1>Tributary</h1>
    <nav aria-label="Views"><ul>${menu.map(([each, name]) => html`<li key=${each}>
      <a href=${`#${each}`} aria-current=${each === path ? "page" : null}>${name}</a></li>`)}</ul></nav>
    ${who && html`<${Account} who=${who} onChange=${onLogin} />`}
    <div class="services">
      <span role="status" class=${`connection ${live.connection}`}>${mayRead && connectionText(live)}</span>
      <ul aria-label="Services">${live.look?.services.map((each) => html`<li key=${each.name} title=${each.summary}
        class=${each.running ? "running" : ""}>${each.name} ${state(each)}</li>`)}</ul>
    </div>
  </header>`;
}

function View({ path, look, past, manages, name }) {
  if (path === "/sessions") return html`<${Sessions} look=${look} manages=${manages} />`;
  if (path === "/rules") return html`<${Rules} look=${look} manages=${manages} />`;
  if (path === "/routers") return html`<${Routers} key=${name} manages=${manages} />`;
  const part = PARTS[path] && look[PARTS[path]];
  if (part === null) return html`<p class="empty">No ${NAMES.get(path).toLowerCase()} answers here now.</p>`;
  if (path === "/overlay") return html`<${Overlay} overlay=${part} />`;
  if (path === "/handoff") return html`<${HandOff} front=${part} />`;
  if (path === "/fleet") return html`<${Fleet} fleet=${part} />`;
  if (path === "/health") return html`<${Health} examined=${look.examined} fixes=${look.fixes} time=${look.time} manages=${manages} />`;
  if (path === "/journal") return html`<${Journal} manages=${manages} />`;
  return html`<${Links} look=${look} past=${past} manages=${manages} /><${Gateway} gateway=${look.gateway} />
    <${Devices} look=${look} /><${Bypasses} look=${look} manages=${manages} />
    ${mayHaveSessions(look) && html`<${Busiest} look=${look} />`}`;
}

/** What the doctor complains of, on all pages but its own. */
function complaint(findings) {
  const wrong = findings.some(isWrong) && "The doctor found something wrong with this machine.";
  const text = wrong || (findings.some(isUnknown) && "The doctor could not examine all of this machine.");
  return text && html`<p class="note"><a href="#/health">${text}</a></p>`;
}

function Page() {
  const { path, token } = useAddress();
  const { data: who, error, again } = usePolled("who", 60);
  const mayRead = who !== null && (who.reading === "open" || who.manages);
  const live = useLooks(mayRead, again);
  useEffect(() => {
    events.addEventListener("refused", again);
    return () => events.removeEventListener("refused", again);
  }, []);
  useEffect(forgetEnrolment, [who?.name]);

  const content = () => {
    if (!who) return html`<p class="empty">${error || "Connecting ..."}</p>`;
    if (path === "/login" || !mayRead) return html`<${Login} who=${who} token=${token} onChange=${again} />`;
    if (!live.look) return html`<p class="empty">Waiting for the first look at the services ...</p>`;
    return html`<${View} path=${path} look=${live.look} past=${live.past} manages=${who.manages} name=${who.name} />`;
  };
  return html`
    <${Header} path=${path} live=${live} who=${who} mayRead=${mayRead} onLogin=${again} />
    <main tabindex="-1" class=${live.connection}>
      <div role="status">
        ${live.look?.notes.map((note) => html`<p key=${note} class="note">${note}</p>`)}
        ${path !== "/health" && complaint(live.look?.examined?.findings ?? [])}
      </div>
      ${content()}
    </main>`;
}

render(html`<${Page} />`, document.getElementById("page"));
