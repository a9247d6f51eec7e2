// What the doctor found, and how it is fixed.

import { html, useEffect, useRef, useState } from "./vendor/preact-htm.module.js";
import { post, Status, useReport } from "./api.js";
import { Table } from "./tables.js";
import { count, date } from "./units.js";

export const isWrong = (finding) => finding.state === "wrong";
/** What could not be examined may be wrong. */
export const isUnknown = (finding) => finding.state === "unknown";
const LONG = 3 * 3600;
const FOUND = ["State", "Check", "What was found", "What fixes it"];
const STATES = ["wrong", "unknown", "note", "ok"];
/** Of the doctor, which examines the machine twice and may start a service, in milliseconds. */
const PATIENCE = 60_000;

/** What came of it, in words; throws them where something is still wrong. */
function outcome({ ran, left, notes }) {
  const nothing = notes.length ? "Nothing was run:" : "It was not wrong any more.";
  const done = ran.length ? `${count(ran.length, "command")} run.` : nothing;
  const failed = ran.filter(({ failure }) => failure).map(({ command, failure }) => `${command}: ${failure}.`);
  const problems = [...failed, ...left.map((each) => `Still wrong: ${each}.`)];
  const text = [done, ...problems, ...notes].join(" ");
  if (problems.length) throw new Error(text);
  return text;
}

/** Asks before it has the doctor fix what has this name among its findings. `onEnd` gets what came of it. */
function Question({ name, findings, onEnd }) {
  const [isBusy, setIsBusy] = useState(false);
  const box = useRef(null);
  useEffect(() => box.current.focus(), [name]);
  const commands = [...new Set(findings.filter((each) => each.fix_name === name).flatMap(({ fix }) => fix))];
  const run = async () => {
    setIsBusy(true);
    await onEnd(async () => outcome(await post("fix", { name }, PATIENCE)));
  };
  return html`<section ref=${box} tabindex="-1" aria-label="What would be run">
    <p>Shall the doctor fix ${name}? It looks again, and runs what fixes what is wrong then; by its last look:</p>
    <pre><code>${commands.join("\n") || "nothing"}</code></pre>
    <div>
      <button type="button" class="danger" disabled=${isBusy} onClick=${run}>${isBusy ? "Running ..." : "Run it now"}</button>
      ${" "}<button type="button" disabled=${isBusy} onClick=${() => onEnd(async () => "")}>Leave it</button>
    </div>
  </section>`;
}

/** What the doctor found, the worst first. Who has logged in has it fix what it `fixes` here. */
export function Health({ examined, fixes, time, manages }) {
  const [asked, setAsked] = useState(null);
  const [status, report] = useReport();
  const line = useRef(null);
  const found = [...(examined?.findings ?? [])].sort((a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state));
  const end = async (action) => {
    await report(action);
    setAsked(null);
    // The view may have been left meanwhile.
    line.current?.focus();
  };
  const button = ({ fix_name: name, message }) =>
    fixes && manages && name !== null && html`<button type="button" disabled=${asked !== null}
      aria-label=${`Fix: ${message}`} onClick=${() => setAsked(name)}>Fix</button>`;
  const remedy = (each) =>
    html`${each.fix.map((command) => html`<code key=${command}>${command}</code>`)} ${each.advice} ${button(each)}`;
  const rows = found.map((each, index) => [index, each.state, each.check, each.message, remedy(each)]);
  return html`<section>
    <h2>Health</h2>
    ${!examined && html`<p class="empty">The doctor has not looked at this machine since it started.</p>`}
    ${examined && html`<p class="muted">As a ${examined.role}, at ${date(examined.time)}.${" "}
      <code>sudo tributary doctor --fix</code> runs the commands that fix what is wrong,
      ${" "}<code>sudo systemctl start tributary-doctor</code> has it look again.</p>`}
    ${examined && time - examined.time > LONG && html`<p class="note">That is long ago: it looks once an hour.</p>`}
    <div ref=${line} tabindex="-1"><${Status} status=${status} /></div>
    ${asked !== null && html`<${Question} name=${asked} findings=${found} onEnd=${end} />`}
    ${fixes && !manages && found.some((each) => each.fix_name !== null)
      && html`<p><a href="#/login">Log in to have the doctor fix something</a></p>`}
    <${Table} label="What the doctor found" heads=${FOUND} rows=${rows} />
  </section>`;
}
