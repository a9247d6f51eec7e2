// Calls of the console's API, and its stream of looks.

import { html, useEffect, useState } from "./vendor/preact-htm.module.js";

const ROOT = "/api/v1/";
const TIMEOUT = 10_000;
const SILENCE = 15_000;
const LONGEST_WAIT = 10_000;
const RETRY = 3;

/** Gets "refused" when the server wants a login. */
export const events = new EventTarget();

async function call(path, options, timeout = TIMEOUT) {
  const limits = { cache: "no-store", signal: AbortSignal.timeout(timeout) };
  const response = await fetch(ROOT + path, { ...options, ...limits }).catch(() => null);
  if (!response) throw new Error("The console does not answer.");
  const body = response.status === 204 ? null : await response.json().catch(() => null);
  if (response.status === 401) events.dispatchEvent(new Event("refused"));
  if (!response.ok) throw new Error(body?.error ?? `The console answered with status ${response.status}.`);
  return body;
}

export const get = (path) => call(path, {});
export const post = (path, body, timeout) =>
  call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }, timeout);

/** Whether this service answers, by a look. */
export const runs = (look, service) => look?.services.some(({ name, running }) => name === service && running);

/** [status, report]: `report` awaits an action, and puts what it returns or throws into the status. */
export function useReport() {
  const [status, setStatus] = useState({ text: "", isError: false });
  const report = (action) =>
    action().then(
      (text) => setStatus({ text: text ?? "", isError: false }),
      (error) => setStatus({ text: error.message, isError: true }),
    );
  return [status, report];
}

const UNKNOWN = { path: null, data: null, error: "" };

export const Status = ({ status }) =>
  html`<p role="status" class=${status.isError ? "error" : "muted"}>${status.text}</p>`;

/** A function that sends values one after another, at most ten a second; of those that wait, the last one wins.
 *  It returns a promise that resolves when all is sent. `send` must not throw. */
export function paced(send) {
  let next = null;
  let running = null;
  async function run() {
    while (next) {
      const [value] = next;
      next = null;
      await Promise.all([send(value), new Promise((resolve) => setTimeout(resolve, 100))]);
    }
    running = null;
  }
  return (value) => {
    next = [value];
    running ??= run();
    return running;
  };
}

/** Asks again each `seconds` while the tab is visible. `path` null: asks nothing, and knows nothing. */
export function usePolled(path, seconds) {
  const [answer, setAnswer] = useState(UNKNOWN);
  const [turn, setTurn] = useState(0);
  const again = () => setTurn((last) => last + 1);
  useEffect(() => {
    let isOver = false;
    let timer = 0;
    async function ask() {
      const added = await get(path).then((data) => ({ path, data, error: "" }), (error) => ({ error: error.message }));
      if (isOver) return;
      setAnswer((last) => ({ ...last, ...added }));
      timer = setTimeout(ask, 1000 * (added.error ? Math.min(seconds, RETRY) : seconds));
    }
    if (path !== null && !document.hidden) ask();
    document.addEventListener("visibilitychange", again);
    return () => {
      isOver = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", again);
    };
  }, [path, turn]);
  return { ...(path === null ? UNKNOWN : answer), again };
}

/** Follows the stream until the function that it returns is called. The stream is closed while the tab is hidden:
 *  a browser has six connections to a server for all its tabs. `onLook` gets a look and whether it is the first one
 *  of a connection. */
export function follow(onLook, onLost) {
  let source = null;
  let timer = 0;
  let wait = 1000;
  let seen = 0;

  function close() {
    clearTimeout(timer);
    source?.close();
  }
  function lose() {
    close();
    onLost();
    timer = setTimeout(open, wait);
    wait = Math.min(2 * wait, LONGEST_WAIT);
  }
  function open() {
    let isFirst = true;
    close();
    source = new EventSource(`${ROOT}stream`);
    timer = setTimeout(lose, SILENCE);
    source.onerror = lose;
    source.addEventListener("look", (event) => {
      const look = JSON.parse(event.data);
      // After a reconnect the last look comes once more.
      if (look.time === seen) return;
      seen = look.time;
      clearTimeout(timer);
      timer = setTimeout(lose, SILENCE);
      wait = 1000;
      onLook(look, isFirst);
      isFirst = false;
    });
  }
  const onVisibility = () => (document.hidden ? close() : open());
  onVisibility();
  document.addEventListener("visibilitychange", onVisibility);
  return () => {
    document.removeEventListener("visibilitychange", onVisibility);
    close();
  };
}
