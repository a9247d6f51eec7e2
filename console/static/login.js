// Logging in and out.

import { html, useEffect, useState } from "./vendor/preact-htm.module.js";
import { post, Status, useReport } from "./api.js";

/** `token` is the one-time token of the page's address; it is used at once. `onChange` is called after a login. */
export function Login({ who, token, onChange }) {
  const [status, report] = useReport();
  const [isBusy, setIsBusy] = useState(false);
  async function login(proof) {
    setIsBusy(true);
    await report(async () => {
      await post("login", proof);
      onChange();
      location.hash = "#/";
    });
    setIsBusy(false);
  }
  const submitted = (event) => {
    event.preventDefault();
    login({ password: new FormData(event.target).get("password") });
  };
  useEffect(() => {
    if (token) login({ token });
  }, [token]);

  return html`<section class="narrow">
    <h2>Log in</h2>
    ${who.manages && html`<p>You are logged in as ${who.name}.</p>`}
    <p>On the machine itself, <code>sudo tributary console login</code> prints an address that logs in.</p>
    ${who.password && html`<form class="login" onSubmit=${submitted}>
      <label for="password">Password</label>
      <input type="password" id="password" name="password" autocomplete="current-password" required />
      <button type="submit" disabled=${isBusy}>Log in</button>
    </form>`}
    <${Status} status=${status} />
  </section>`;
}

/** Who is logged in, in the header. */
export function Account({ who, onChange }) {
  const [status, report] = useReport();
  const logout = () => report(() => post("logout", {}).then(onChange));
  if (!who.manages) return html`<a class="account" href="#/login">Log in</a>`;
  return html`<div class="account">
    <${Status} status=${status} />
    <span>Logged in as ${who.name}</span>
    <button type="button" onClick=${logout}>Log out</button>
  </div>`;
}
