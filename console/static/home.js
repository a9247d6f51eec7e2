// What a home router has besides its links: its gateway, the devices of the LAN, and what goes past the tunnels.

import { html, useState } from "./vendor/preact-htm.module.js";
import { post, Status, useReport } from "./api.js";
import { Table } from "./tables.js";
import { count, delay, rate, size } from "./units.js";

const TUNNELS = ["Tunnel over", "State", "Round-trip time", "Interface", "Address inside"];

/** The gateway, and the tunnels to it. */
export function Gateway({ gateway }) {
  if (!gateway) return null;
  const row = (each) => [
    ...[each.interface, each.link ?? "best link, for all that is not bonded", each.state],
    ...[each.rtt === null ? "" : delay(each.rtt), each.interface, each.address],
  ];
  const rows = gateway.tunnels.map(row);
  return html`<section aria-labelledby="gateway">
    <h2 id="gateway">Gateway</h2>
    <p>${gateway.address} <span class=${`answers ${gateway.answers ? "up" : "down"}`}>
      ${gateway.answers ? "answers" : "does not answer"}</span></p>
    ${gateway.earlier && html`<p class="note">${gateway.earlier} takes over again when it has answered for a while.</p>`}
    <${Table} label="Tunnels" heads=${TUNNELS} rows=${rows} empty="There is no tunnel yet." />
  </section>`;
}

const DEVICES = ["Device", "Download now", "Upload now", "Downloaded", "Uploaded", "Addresses", "MAC address"];
const used = (device) => (device.sent ?? 0) + (device.received ?? 0);

/** The devices of the LAN: those that have used most come first. */
export function Devices({ look }) {
  if (!look.devices.length) return null;
  const row = (each) => [
    ...[each.mac, each.name ?? each.addresses[0] ?? each.mac, rate(each.sent_rate), rate(each.received_rate)],
    ...[size(each.sent), size(each.received), each.addresses.join(", "), each.mac],
  ];
  const rows = [...look.devices].sort((a, b) => used(b) - used(a)).map(row);
  const hidden = look.devices_total - rows.length;
  return html`<section aria-labelledby="devices">
    <h2 id="devices">Devices</h2>
    <${Table} label="Devices of the LAN" heads=${DEVICES} rows=${rows} />
    ${hidden > 0 && html`<p class="muted">and ${count(hidden, "device")} that carry less now</p>`}
  </section>`;
}

const BYPASSES = ["What", "Leaves by", "Said by", "Change"];
const PATTERN = "[0-9a-fA-F:.\\/]{3,60}";

/** What leaves the LAN past the tunnels. Who has logged in adds and removes some, until the router is reloaded. */
export function Bypasses({ look, manages }) {
  const [status, report] = useReport();
  const [match, setMatch] = useState("");
  const [to, setTo] = useState("best");
  const links = look.links.filter((link) => link.kind === "wan");
  if (!links.length) return null;
  const add = (event) => {
    event.preventDefault();
    report(async () => {
      await post("bypass", { match, to });
      setMatch("");
      return "New connections leave by that link.";
    });
  };
  const remove = (what) =>
    report(async () => {
      await post("bypass", { match: what, to: null });
      return `${what} is by-passed no more; connections that are open stay as they are.`;
    });
  const button = (what) =>
    html`<button type="button" aria-label=${`Remove the by-pass of ${what}`} onClick=${() => remove(what)}>Remove</button>`;
  const rows = look.bypasses.map((each) => [
    ...[each.match.join(), each.match.join("; "), each.to, each.added ? "this page" : "the settings"],
    each.added && manages && button(each.match[0]),
  ]);
  return html`<section aria-labelledby="bypasses">
    <h2 id="bypasses">Past the tunnels</h2>
    <${Table} label="By-passes" heads=${BYPASSES} rows=${rows} empty="Nothing is led past the tunnels." />
    <form class="filter" onSubmit=${add}>
      <label>Network, or a device's MAC address<input value=${match} required pattern=${PATTERN} disabled=${!manages}
        title="such as 198.51.100.0/24 or 02:00:5e:10:00:01" onInput=${({ target }) => setMatch(target.value)} /></label>
      <label>Leaves by<select value=${to} disabled=${!manages} onChange=${({ target }) => setTo(target.value)}>
        <option value="best">the best link</option>
        ${links.map(({ name }) => html`<option key=${name} value=${name}>${name}</option>`)}
      </select></label>
      <button type="submit" disabled=${!manages}>Add</button>
      ${!manages && html`<a href="#/login">Log in to change this</a>`}
    </form>
    <${Status} status=${status} />
  </section>`;
}
