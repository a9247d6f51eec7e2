// A table, and the views that are one: the rules of the throttler's policy, and the journal of changes.

import { html, useRef, useState } from "./vendor/preact-htm.module.js";
import { post, Status, usePolled, useReport } from "./api.js";
import { count, date, size } from "./units.js";

/** `rows` are [key, ...cells], undefined while nothing is known; without any, `empty` is shown. The box around the
 *  table scrolls sideways, also by keyboard. */
export function Table({ label, heads, rows, empty }) {
  if (!rows?.length) return rows && empty && html`<p class="empty">${empty}</p>`;
  return html`<div class="scroll" role="region" aria-label=${label} tabindex="0"><table>
    <thead><tr>${heads.map((head) => html`<th key=${head} scope="col">${head}</th>`)}</tr></thead>
    <tbody>${rows.map(([key, ...cells]) => html`<tr key=${key}>
      ${cells.map((cell) => html`<td>${cell}</td>`)}
    </tr>`)}</tbody>
  </table></div>`;
}

const quota = ({ quota: most, used, exhausted }) =>
  most === null ? "none" : `${most}; most used ${size(used)}; ${exhausted ?? 0} over it`;

/** A word of a command for the shell. */
const quoted = (text) => (/^[\w./:=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const PREVIEWED = ["Session", "Subflow", "Path", "Rule now"];

/** A form that says which subflows a rule would be about. It sets none: the command that does is below the answer. */
function RulePreview({ look, manages }) {
  const [rule, setRule] = useState({ name: "new-rule", path: "", rate: "2mbit", clients: "", min_subflows: "2" });
  const [found, setFound] = useState(null);
  const [status, report] = useReport();
  const set = (key) => ({ target: { value: text } }) => setRule((last) => ({ ...last, [key]: text }));
  const keys = () => {
    const given = Object.entries(rule).map(([key, text]) => [key, text.trim()]).filter(([, text]) => text !== "");
    const values = { clients: (text) => text.split(/[\s,]+/).filter(Boolean), min_subflows: Number };
    return Object.fromEntries(given.map(([key, text]) => [key, values[key]?.(text) ?? text]));
  };
  const tried = (event) => {
    event.preventDefault();
    setFound(null);
    report(async () => {
      setFound({ asked: keys(), ...(await post("preview", { rule: keys() })) });
    });
  };
  const written = ([key, given]) => `${key}=${typeof given === "object" ? JSON.stringify(given) : given}`;
  const command = ({ name, ...others }) =>
    ["sudo tributary-throttler set", ...[name, ...Object.entries(others).map(written)].map(quoted)].join(" ");
  const paths = look.links.filter((link) => link.kind === "path");
  const row = (each) => [each.subflow, each.token, each.subflow, each.path, each.instead_of ?? "none"];
  const input = (key, label) => html`<label>${label}<input value=${rule[key]} onInput=${set(key)} /></label>`;
  return html`<section>
    <h2>Which subflows would a rule be about?</h2>
    <form class="filter" onSubmit=${tried}>
      ${input("name", "Name")}
      <label>Path<select value=${rule.path} onChange=${set("path")}>
        <option value="">any path</option>
        ${paths.map(({ name }) => html`<option key=${name} value=${name}>${name}</option>`)}
      </select></label>
      ${input("rate", "Rate")}
      ${input("clients", "Clients (networks)")}
      ${input("min_subflows", "Subflows of the session, at least")}
      <button type="submit" disabled=${!manages}>Try it</button>
      ${!manages && html`<a href="#/login">Log in to try a rule</a>`}
    </form>
    <${Status} status=${status} />
    ${found && html`<div role="status">
      <p>It would ${found.acts ? "throttle" : "let pass"} ${count(found.subflows, "subflow")} of
        ${" "}${count(found.sessions, "session")}${found.released > 0 && `, and release ${found.released}`}.
        Nothing has changed; as root, this sets it:</p>
      <pre><code>${command(found.asked)}</code></pre>
    </div>`}
    <${Table} label="The first subflows" heads=${PREVIEWED} rows=${found?.first.map(row)} />
  </section>`;
}

export function Rules({ look, manages }) {
  const heads = ["Rule", "State", "Rate", "Shared by", "Subflows", "Matches", "Quota"];
  const rows = look.rules.map((rule) => [
    ...[rule.name, rule.name, rule.state, rule.rate ?? "none"],
    ...[rule.shared_by, rule.subflows, rule.matches, quota(rule)],
  ]);
  return html`<section>
    <h2>Rules</h2>
    <${Table} label="Rules" heads=${heads} rows=${rows} empty="No throttler runs here, or its policy has no rules." />
  </section>
  ${look.links.some((link) => link.kind === "path") && html`<${RulePreview} look=${look} manages=${manages} />`}`;
}

const NOTHING = { limit: "no limit", access: "no access", to: "no by-pass" };
/** Keys of changes that nobody can undo. */
const FINAL = new Set(["access", "state"]);
/** Keys that have another name on the cards. */
const NAMES = { use: "role" };
const value = (key, text) => text ?? NOTHING[key] ?? "as in the settings";

export function Journal({ manages }) {
  const { data, error, again } = usePolled("journal?limit=100", 5);
  const [status, report] = useReport();
  const line = useRef(null);
  const undo = async (entry) => {
    await report(async () => {
      await post("undo", { entry: entry.id });
      return `The change of ${entry.subject} is undone.`;
    });
    line.current?.focus();
    again();
  };
  const button = (entry) => html`<button type="button" onClick=${() => undo(entry)}
    aria-label=${`Undo the change of ${entry.subject} at ${date(entry.time)}`}>Undo</button>`;
  const rows = data?.entries.map((entry) => [
    ...[entry.id, date(entry.time), entry.who, `${NAMES[entry.key] ?? entry.key} of ${entry.subject}`],
    ...[value(entry.key, entry.before), value(entry.key, entry.after)],
    entry.undone ? "undone" : manages && !FINAL.has(entry.key) && button(entry),
  ]);
  const heads = ["When", "Who", "What", "Before", "After", "Undo"];
  return html`<section>
    <h2>Journal</h2>
    <div ref=${line} tabindex="-1"><${Status} status=${status} /></div>
    <p role="status" class="error">${error}</p>
    <${Table} label="Changes, the newest first" heads=${heads} rows=${rows} empty="Nothing was changed yet." />
  </section>`;
}
