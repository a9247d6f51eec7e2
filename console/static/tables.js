// A table, and the views that are one: the rules of the throttler's policy, and the journal of changes.

import { html, useRef } from "./vendor/preact-htm.module.js";
import { post, Status, usePolled, useReport } from "./api.js";
import { date, size } from "./units.js";

/** `rows` are [key, ...cells]. The box around it scrolls sideways, also by keyboard. */
export const Table = ({ label, heads, rows }) => html`
  <div class="scroll" role="region" aria-label=${label} tabindex="0"><table>
    <thead><tr>${heads.map((head) => html`<th key=${head} scope="col">${head}</th>`)}</tr></thead>
    <tbody>${rows.map(([key, ...cells]) => html`<tr key=${key}>
      ${cells.map((cell) => html`<td>${cell}</td>`)}
    </tr>`)}</tbody>
  </table></div>`;

const quota = ({ quota: most, used, exhausted }) =>
  most === null ? "none" : `${most}; most used ${size(used)}; ${exhausted ?? 0} over it`;

export function Rules({ look }) {
  const heads = ["Rule", "State", "Rate", "Shared by", "Subflows", "Matches", "Quota"];
  const rows = look.rules.map((rule) => [
    ...[rule.name, rule.name, rule.state, rule.rate ?? "none"],
    ...[rule.shared_by, rule.subflows, rule.matches, quota(rule)],
  ]);
  return html`<section>
    <h2>Rules</h2>
    ${rows.length === 0 && html`<p class="empty">No throttler runs here, or its policy has no rules.</p>`}
    ${rows.length > 0 && html`<${Table} label="Rules" heads=${heads} rows=${rows} />`}
  </section>`;
}

const value = (key, text) => text ?? (key === "limit" ? "no limit" : "as in the settings");

export function Journal({ manages }) {
  const { data, error, again } = usePolled("journal?limit=100", 5);
  const [status, report] = useReport();
  const line = useRef(null);
  const undo = async (entry) => {
    await report(async () => {
      await post("undo", { entry: entry.id });
      return `The change of ${entry.subject} is undone.`;
    });
    line.current.focus();
    again();
  };
  const button = (entry) => html`<button type="button" onClick=${() => undo(entry)}
    aria-label=${`Undo the change of ${entry.subject} at ${date(entry.time)}`}>Undo</button>`;
  const rows = data?.entries.map((entry) => [
    ...[entry.id, date(entry.time), entry.who, `${entry.key} of ${entry.subject}`],
    ...[value(entry.key, entry.before), value(entry.key, entry.after)],
    entry.undone ? "undone" : manages && button(entry),
  ]);
  const heads = ["When", "Who", "What", "Before", "After", "Undo"];
  return html`<section>
    <h2>Journal</h2>
    <div ref=${line} tabindex="-1"><${Status} status=${status} /></div>
    <p role="status" class="error">${error}</p>
    ${rows?.length === 0 && html`<p class="empty">Nothing was changed yet.</p>`}
    ${rows?.length > 0 && html`<${Table} label="Changes, the newest first" heads=${heads} rows=${rows} />`}
  </section>`;
}
