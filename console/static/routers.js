// The home routers of a gateway: who is there, who comes in, who goes.

import { html, useState } from "./vendor/preact-htm.module.js";
import { post, Status, usePolled, useReport } from "./api.js";
import { Table } from "./tables.js";
import { age, size } from "./units.js";

/** Of what runs tools at the gateway, in milliseconds. */
const PATIENCE = 60_000;
/** The enrolment that is shown: it comes once, and outlives a look at another view. */
let last = null;

/** Of whoever enrols, and of nobody after him. */
export const forgetEnrolment = () => {
  last = null;
};

/** What a new router needs, which is shown once. */
function Enrolment({ name, made, onClose }) {
  return html`<section class="enrolment" aria-labelledby="enrolment">
    <h3 id="enrolment">${name} is enrolled</h3>
    <p>Take this into the router's settings, such as by the page of its first start. It has the router's secret, is kept
      nowhere, and cannot be shown again.</p>
    <img src=${made.qr} alt=${`QR code of the settings of ${name}`} />
    <pre><code>${made.settings}</code></pre>
    ${made.notes.map((note) => html`<p key=${note} class="note">${note}</p>`)}
    <button type="button" onClick=${onClose}>Done</button>
  </section>`;
}

export function Routers({ manages }) {
  const { data, error, again } = usePolled(manages ? "routers" : null, 5);
  const [status, report] = useReport();
  const [name, setName] = useState("");
  const [made, setMade] = useState(last);
  const [asked, setAsked] = useState(null);
  const [isBusy, setIsBusy] = useState(false);
  const show = (enrolment) => {
    last = enrolment;
    setMade(enrolment);
  };
  const enrol = async (event) => {
    event.preventDefault();
    setIsBusy(true);
    await report(async () => {
      show({ name, ...(await post("enrol", { name }, PATIENCE)) });
      setName("");
    });
    setIsBusy(false);
    again();
  };
  const revoke = async (router) => {
    await report(async () => {
      await post("revoke", { name: router }, PATIENCE);
      return `${router} is revoked: none of its packets is accepted any more.`;
    });
    setAsked(null);
    again();
  };
  const button = (router) =>
    router === asked
      ? html`<button type="button" class="danger" onClick=${() => revoke(router)}>Revoke ${router} now</button>
          ${" "}<button type="button" onClick=${() => setAsked(null)}>Keep it</button>`
      : html`<button type="button" aria-label=${`Revoke ${router}`} onClick=${() => setAsked(router)}>Revoke</button>`;
  const rows = data?.routers.map((each) => [
    ...[each.name, each.name, each.addresses[0], each.last_seen === null ? "never" : `${age(each.last_seen)} ago`],
    ...[String(each.up.filter(({ link }) => link !== null).length), size(each.sent ?? 0), size(each.received ?? 0)],
    each.forwards.join(", ") || "none",
    manages && button(each.name),
  ]);
  const isClosed = !manages || isBusy || made !== null;
  const heads = ["Router", "Address", "Seen", "Links up", "Sent", "Received", "Forwards", "Access"];
  return html`<section aria-labelledby="routers">
    <h2 id="routers">Home routers</h2>
    <p role="status" class="error">${error}</p>
    ${data?.notes.map((note) => html`<p key=${note} class="note">${note}</p>`)}
    <${Table} label="Home routers" heads=${heads} rows=${rows} empty="No router is enrolled yet." />
    <${Status} status=${status} />
    ${made && manages && html`<${Enrolment} name=${made.name} made=${made} onClose=${() => show(null)} />`}
    <form class="filter" onSubmit=${enrol}>
      <label>Name of a new router<input value=${name} required pattern="[a-z0-9\\-]{1,40}" disabled=${isClosed}
        title="1 to 40 of a-z, 0-9 and -" onInput=${({ target }) => setName(target.value)} /></label>
      <button type="submit" disabled=${isClosed}>Enrol</button>
      ${!manages && html`<a href="#/login">Log in to see, enrol or revoke routers</a>`}
    </form>
  </section>`;
}
