// What a home router has besides its links: its gateway, and the devices of the LAN.

import { html } from "./vendor/preact-htm.module.js";
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
    ${gateway.earlier && html`<p class="note">${gateway.earlier} comes first in the settings, and does not answer.</p>`}
    <${Table} label="Tunnels" heads=${TUNNELS} rows=${rows} empty="There is no tunnel yet." />
  </section>`;
}

const DEVICES = ["Device", "Addresses", "Download now", "Upload now", "Downloaded", "Uploaded", "MAC address"];
const used = (device) => (device.sent ?? 0) + (device.received ?? 0);

/** The devices of the LAN: those that have used most come first. */
export function Devices({ look }) {
  if (!look.devices.length) return null;
  const row = (each) => [
    ...[each.mac, each.name ?? each.addresses[0] ?? each.mac, each.addresses.join(", ")],
    ...[rate(each.sent_rate), rate(each.received_rate), size(each.sent), size(each.received), each.mac],
  ];
  const rows = [...look.devices].sort((a, b) => used(b) - used(a)).map(row);
  const hidden = look.devices_total - rows.length;
  return html`<section aria-labelledby="devices">
    <h2 id="devices">Devices</h2>
    <${Table} label="Devices of the LAN" heads=${DEVICES} rows=${rows} />
    ${hidden > 0 && html`<p class="muted">and ${count(hidden, "device")} that carry less now</p>`}
  </section>`;
}
