// The settings of a session from its next run on.

import { doing } from "../state.js";
import { html } from "../html.js";
import { useEffect, useState } from "../vendor/preact.js";

const LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh"];

export function Settings({ bus, session, fold }) {
  const [open, setOpen] = useState(false);
  return html`<details class="settings" onToggle=${(e) => setOpen(e.target.open)}><summary>Settings</summary>
    ${open && html`<${Choices} bus=${bus} session=${session} fold=${fold} />`}</details>`;
}

function Choices({ bus, session, fold }) {
  const [models, setModels] = useState([]);
  const [profile, setProfile] = useState(fold.config.profile ?? "");
  useEffect(() => {
    const stop = new AbortController();
    doingQuietly(() => bus.models({ signal: stop.signal }), setModels);
    return () => stop.abort();
  }, [bus]);
  const key = (m) => `${m.provider}/${m.id}`;
  const now = fold.config.model && key(fold.config.model);
  const change = (name, data, what) => doing(what, () => session.set(name, data));
  const setModel = (value) => {
    const { api, provider, id } = models.find((m) => key(m) === value);
    change("model", { model: { api, provider, id } }, "Model");
  };
  return html`<div class="choices"><label>Model <select onChange=${(e) => setModel(e.target.value)}>
      ${!models.some((m) => key(m) === now) && html`<option selected disabled>${now ?? "the runner's"}</option>`}
      ${models.filter((m) => m.key).map((m) => html`<option value=${key(m)} selected=${key(m) === now}>${key(m)}</option>`)}</select></label>
    <label>Thinking <select onChange=${(e) => change("thinking_level", { thinkingLevel: e.target.value }, "Thinking")}>
      ${LEVELS.map((l) => html`<option selected=${l === (fold.config.thinkingLevel ?? "off")}>${l}</option>`)}</select></label>
    <form onSubmit=${(e) => (e.preventDefault(), change("profile", { profile }, "Profile"))}><label>Profile <input value=${profile}
      onInput=${(e) => setProfile(e.target.value)} /></label><button>Set</button></form></div>`;
}

async function doingQuietly(f, then) {
  try {
    then(await f());
  } catch {
    // the choice is empty, and the session keeps its setting
  }
}
