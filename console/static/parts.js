// What only some gateways have: the overlay's map, the front of a hand-off, and the fleet.

import { html } from "./vendor/preact-htm.module.js";
import { Table } from "./tables.js";
import { age, count, delay } from "./units.js";

const [WIDTH, HEIGHT, EDGE] = [480, 300, 36];
/** More labels than these overlap. */
const MOST_LABELS = 20;

/** Places in the picture, with one scale for both directions, so that distances stay like delays. */
function placed(nodes) {
  const range = (values) => [Math.min(...values), Math.max(...values)];
  const [[left, right], [top, bottom]] = ["x", "y"].map((axis) => range(nodes.map((node) => node[axis])));
  const scale = Math.min((WIDTH - 2 * EDGE) / (right - left || 1), (HEIGHT - 2 * EDGE) / (bottom - top || 1));
  const middle = (low, high, size) => (value) => size / 2 + (value - (low + high) / 2) * scale;
  const [x, y] = [middle(left, right, WIDTH), middle(top, bottom, HEIGHT)];
  return new Map(nodes.map((node) => [node.name, { x: x(node.x), y: y(node.y) }]));
}

function Hop({ hop, from, to, most, isLabelled }) {
  return html`<g>
    <line class="hop" x1=${from.x} y1=${from.y} x2=${to.x} y2=${to.y} stroke-width=${1 + (4 * hop.chains) / most} />
    ${isLabelled && html`<text class="delay" x=${(from.x + to.x) / 2} y=${(from.y + to.y) / 2 + 3}
      text-anchor="middle">${delay(hop.rtt)}</text>`}
  </g>`;
}

function Node({ node, at, isLabelled }) {
  return html`<g class=${`node ${node.state}`}>
    <circle cx=${at.x} cy=${at.y} r="6" />
    ${isLabelled && html`<text x=${at.x} y=${at.y + 19} text-anchor="middle">${node.name}</text>`}
  </g>`;
}

const STATES = { up: "up", silent: "its converter does not answer", away: "away" };

function Picture({ overlay: { nodes, hops } }) {
  const at = placed(nodes);
  const most = Math.max(...hops.map((hop) => hop.chains));
  const apart = nodes.filter(({ state }) => state !== "up").map(({ name, state }) => `${name}: ${STATES[state]}.`);
  const text = `Map of ${count(nodes.length, "node")} and ${count(hops.length, "hop")} of chains. ${apart.join(" ")}`;
  return html`<svg class="map" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${text}>
    ${hops.map((hop) => html`<${Hop} key=${`${hop.a} ${hop.b}`} hop=${hop} from=${at.get(hop.a)} to=${at.get(hop.b)}
      most=${most} isLabelled=${hops.length <= MOST_LABELS} />`)}
    ${nodes.map((node) => html`<${Node} key=${node.name} node=${node} at=${at.get(node.name)}
      isLabelled=${nodes.length <= MOST_LABELS || node.state !== "up"} />`)}
  </svg>`;
}

/** The overlay: a map on which distances are like delays, and the same as tables. */
export function Overlay({ overlay }) {
  const { nodes, hops, controller, computed, problem, refused } = overlay;
  const node = (each) => [each.name, each.name, STATES[each.state], each.address, `${each.pressure} %`, each.delays];
  const hop = (each) => [`${each.a} ${each.b}`, each.a, each.b, delay(each.rtt), each.chains];
  const heads = ["Node", "State", "Agent", "Pressure", "Peers measured"];
  return html`<section aria-labelledby="overlay">
    <h2 id="overlay">Overlay</h2>
    ${problem && html`<p class="note">${overlay.age === null ? "It was never read" : `Not read for ${age(overlay.age)}`}:
      ${" "}${problem}</p>`}
    ${refused.map((line) => html`<p key=${line} class="note">Refused: ${line}</p>`)}
    <p class="muted">${overlay.nodes_up} of ${count(overlay.nodes_total, "node")} up.${" "}
      ${controller ? `The controller ${controller} computed the chains ${age(computed)} ago.` : "There is no controller: chains stay as they are."}</p>
    ${nodes.length > 1 && html`<figure class="card">
      <${Picture} overlay=${overlay} />
      <figcaption class="muted">Distances are like delays. Lines are hops of the best chains for 465 kB, wider for
        more chains. A dashed ring is a node that is away, a ring one whose converter does not answer.</figcaption>
    </figure>`}
    <${Table} label="Nodes" heads=${heads} rows=${nodes.map(node)} empty="No node is there." />
    <${Table} label="Hops of chains" heads=${["From", "To", "Round trip", "Chains"]} rows=${hops.map(hop)}
      empty="There are no chains yet." />
  </section>`;
}

const Figures = ({ label, heads, of }) =>
  html`<${Table} label=${label} heads=${heads} rows=${Object.entries(of).map(([name, number]) =>
    [name, name, number.toLocaleString("en")])} />`;

/** The front of a hand-off. */
export function HandOff({ front }) {
  const row = (each) => [each.name, each.name, each.up ? "up" : "away", each.connections];
  return html`<section aria-labelledby="handoff">
    <h2 id="handoff">Hand-off</h2>
    ${!front.switch_up && html`<p class="note">The switch is away: requests are relayed.</p>`}
    ${front.switch_up && html`<p class="muted">The switch is up.</p>`}
    <${Table} label="Back ends" heads=${["Back end", "State", "Connections there"]} rows=${front.back_ends.map(row)}
      empty="The settings name no back end." />
    <h3>Requests since the converter's start</h3>
    <${Figures} label="Requests" heads=${["How they were answered", "Requests"]} of=${front.requests} />
    <${Figures} label="Not handed over" heads=${["Why they could not be handed over", "Requests"]} of=${front.failures} />
    ${Object.keys(front.requests).length === 0 && html`<p class="empty">There was none yet.</p>`}
  </section>`;
}

function fleetText({ announced, drained, answers, heard }) {
  if (announced === null) return "BIRD does not answer: whether this gateway is announced is not known.";
  if (drained !== null) return `This gateway is drained (${drained}), and ${announced ? "about to be withdrawn" : "withdrawn"}.`;
  if (!answers) return `A proxy does not answer: this gateway is ${announced ? "about to be withdrawn" : "withdrawn"}.`;
  if (!heard) return "No router hears this gateway: it is not announced.";
  return announced ? "This gateway is announced: routers send it clients." : "This gateway is about to be announced.";
}

/** Whether routers send clients here. */
export function Fleet({ fleet }) {
  const isIn = fleet.announced && fleet.drained === null && fleet.answers;
  return html`<section aria-labelledby="fleet">
    <h2 id="fleet">Fleet</h2>
    <p class=${isIn ? "empty" : "note"}>${fleetText(fleet)}</p>
    ${fleet.connections !== null && html`<p>The converter has ${count(fleet.connections, "connection")} of clients.</p>`}
    <p class="muted"><code>sudo tributary-anycast ${fleet.drained === null ? "drain" : "announce"}</code>
      ${fleet.drained === null ? " takes it out of service." : " takes it back into service."}</p>
  </section>`;
}
