// The controls that change a link: a slider for a rate, and its role.

import { html, useEffect, useRef, useState } from "./vendor/preact-htm.module.js";
import { paced, post, Status, useReport } from "./api.js";
import { exactRate, position, rateSetting, STEPS } from "./units.js";

const HOLD = 1500;

/** The state of a control. `chosen` is what the user has chosen, until a look at HOLD after `release`; else null.
 *  `request` makes the API's path and body from a value. */
function useControl(time, request) {
  const [chosen, setChosen] = useState(null);
  const [entry, setEntry] = useState(null);
  const [status, report] = useReport();
  const wait = useRef({ timer: 0, isOver: false, sent: Promise.resolve() }).current;
  const current = useRef(request);
  current.current = request;

  const send = (value) =>
    report(async () => {
      const made = await post(...current.current(value));
      // Without a line nothing has changed, or all is as it was before the last one, which went.
      setEntry((last) => made.entry ?? (last?.before === value ? null : last));
    });
  const sender = useRef(null);
  sender.current ??= paced(send);

  const follow = () => {
    clearTimeout(wait.timer);
    wait.isOver = false;
    setChosen(null);
  };
  const choose = (shown, value) => {
    follow();
    setChosen(shown);
    wait.sent = sender.current(value);
  };
  const release = async () => {
    await wait.sent;
    clearTimeout(wait.timer);
    wait.timer = setTimeout(() => (wait.isOver = true), HOLD);
  };
  const undo = () =>
    report(async () => {
      await post("undo", { entry: entry.id });
      setEntry(null);
      follow();
      return "The change is undone.";
    });
  useEffect(() => {
    if (wait.isOver) follow();
  }, [time]);
  return { chosen, choose, release, status, undo: entry && undo };
}

/** What comes below a control of `what`. The focus goes to the control when the undo button goes. */
function Outcome({ id, what, control, manages }) {
  const clicked = async () => {
    await control.undo();
    document.getElementById(id)?.focus();
  };
  const label = `Undo the change of ${what}`;
  return html`<div class="outcome">
    ${!manages && html`<a id=${`${id}-hint`} href="#/login">Log in to change this</a>`}
    ${manages && control.undo && html`<button type="button" aria-label=${label} onClick=${clicked}>Undo</button>`}
    <${Status} status=${control.status} />
  </div>`;
}

/** `bits` is the rate now, null where there is none; `none` says what the right end of the slider means. */
export function RateSlider({ id, label, subject, bits, none, time, manages, request }) {
  const control = useControl(time, request);
  const { chosen, choose, release } = control;
  const moved = ({ target }) => choose(Number(target.value), rateSetting(STEPS[target.value]));
  const now = chosen === null ? bits : STEPS[chosen];
  const text = now === null ? none : exactRate(now);
  return html`<div class="control">
    <label for=${id}>${label}</label><span class="value" aria-hidden="true">${text}</span>
    <input type="range" id=${id} min="0" max=${STEPS.length - 1} step="1" value=${String(chosen ?? position(bits))}
      aria-label=${`${label} of ${subject}`} aria-valuetext=${text} aria-describedby=${manages ? null : `${id}-hint`}
      disabled=${!manages} onInput=${moved} onChange=${release} onPointerUp=${release} onPointerCancel=${release} />
    <div class="ends" aria-hidden="true"><span>${exactRate(STEPS[0])}</span><span>${none}</span></div>
    <${Outcome} id=${id} what=${`the ${label.toLowerCase()} of ${subject}`} control=${control} manages=${manages} />
  </div>`;
}

/** The role of an access link. */
export function RoleSelect({ id, link, time, manages }) {
  const control = useControl(time, (value) => ["link", { link: link.name, key: "use", value }]);
  const selected = ({ target }) => {
    control.choose(target.value, target.value || null);
    control.release();
  };
  return html`<div class="control">
    <label for=${id}>Role</label>
    <select id=${id} aria-label=${`Role of ${link.name}`} aria-describedby=${manages ? null : `${id}-hint`}
      value=${control.chosen ?? link.use ?? ""} disabled=${!manages} onChange=${selected}>
      ${["primary", "overflow", "backup"].map((role) => html`<option key=${role} value=${role}>${role}</option>`)}
      <option value="">as in the settings</option>
    </select>
    <${Outcome} id=${id} what=${`the role of ${link.name}`} control=${control} manages=${manages} />
  </div>`;
}
