// The console: connects, and shows the view that the URL names.

import { CredentialsError, forget, open } from "./bus.js";
import { notifyOf } from "./notify.js";
import { Guard } from "./parts/guard.js";
import { html } from "./html.js";
import { Waiting } from "./sessions.js";
import { go, notices, usePlace, useWatched, Watched } from "./state.js";
import { render, useEffect, useState } from "./vendor/preact.js";
import { ApprovalsView } from "./views/approvals.js";
import { FleetView } from "./views/fleet.js";
import { PairView } from "./views/pair.js";
import { SessionView } from "./views/session.js";
import { SessionsView } from "./views/sessions.js";
import { TimeView } from "./views/time.js";

/** The page once it is connected. */
class App extends Watched {
  bus = null;
  config = {};
  waiting = null;
  problem = "Connecting …";
  login = false;
  user = "";

  async connect(credentials) {
    this.problem = "Connecting …";
    this.login = false;
    this.change();
    for (;;) {
      try {
        const { bus, config } = await open(credentials);
        Object.assign(this, { bus, config, problem: "" });
        break;
      } catch (err) {
        if (err instanceof CredentialsError) {
          forget();
          this.login = true;
          this.problem = credentials ? "The server refuses these credentials." : err.message;
          this.change();
          return;
        }
        this.problem = `No connection: ${err.message}. Trying again …`;
        this.change();
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }
    }
    this.bus.onConnection((up) => {
      this.problem = up ? "" : this.bus.link.closed ? "The connection is closed. Reload the page." : "The connection is lost. Reconnecting …";
      this.change();
    });
    this.waiting = new Waiting(this.bus);
    this.waiting.watch(() => this.change());
    notifyOf(this.waiting);
    this.change();
  }
}

const app = new App();

function Main() {
  useWatched(app);
  const place = usePlace();
  const waiting = app.waiting?.list.length ?? 0;
  useEffect(() => {
    document.title = waiting > 0 ? `(${waiting}) loopbus` : "loopbus";
  }, [waiting]);
  useEffect(() => {
    const keys = { s: "#/", a: "#/approvals", f: "#/fleet" };
    const pressed = (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) return;
      if (pressed.g && keys[e.key]) go(keys[e.key]);
      pressed.g = e.key === "g";
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  const [first, id, kind, value] = place.tokens;
  const link = (href, text, here, badge) => html`<a href=${href} aria-current=${here ? "page" : undefined}>${text}${badge > 0 &&
    html` <span class="badge" aria-label="${badge} waiting">${badge}</span>`}</a>`;
  return html`<a class="skip" href="#main" onClick=${(e) => (e.preventDefault(), document.getElementById("main").focus())}>To the content</a>
    <header class="top"><a class="brand" href="#/">loopbus</a>
      <nav aria-label="Views">${link("#/", "Sessions", !first || first === "s")}${link("#/approvals", "Approvals", first === "approvals", waiting)}
        ${link("#/fleet", "Fleet", first === "fleet")}</nav>
      <span class="link ${app.problem ? "down" : "up"}" role="status">${app.problem || "connected"}</span></header>
    <main id="main" tabindex="-1"><${Guard}>${!app.bus ? (app.login ? html`<${Login} />` : html`<p class="empty">${app.problem}</p>`)
    : first === "s" && id && (kind === "e" || kind === "time")
      ? html`<${TimeView} key=${id} bus=${app.bus} id=${id} seq=${Number(value) || 0} from=${Number(place.query.get("from")) || 0} />`
    : first === "s" && id && kind === "with" && value ? html`<${PairView} key="${id} ${value}" bus=${app.bus} ids=${[id, value]} />`
    : first === "s" && id ? html`<${SessionView} key=${id} bus=${app.bus} id=${id} />`
    : first === "approvals" ? html`<${ApprovalsView} bus=${app.bus} waiting=${app.waiting} />`
    : first === "fleet" ? html`<${FleetView} bus=${app.bus} />`
    : html`<${SessionsView} bus=${app.bus} query=${place.query} />`}</${Guard}></main><${Notices} />`;
}

function Notices() {
  useWatched(notices);
  return html`<div class="notices" role="log" aria-live="polite" aria-label="Outcomes">${notices.list.map((n) => html`<p key=${n.key} class=${n.tone}>
    ${n.text}<button aria-label="Dismiss" onClick=${() => notices.drop(n.key)}>×</button></p>`)}</div>`;
}

function Login() {
  const [user, setUser] = useState(app.user);
  const [pass, setPass] = useState("");
  const send = (e) => {
    e.preventDefault();
    app.user = user; // for a second try
    app.connect(user ? { user, pass } : { token: pass });
  };
  return html`<form class="login" onSubmit=${send}><h1>Sign in</h1><p>${app.problem}</p>
    <label>User <input value=${user} autocomplete="username" onInput=${(e) => setUser(e.target.value)} /></label>
    <label>Password or token <input type="password" value=${pass} autocomplete="current-password" onInput=${(e) => setPass(e.target.value)} /></label>
    <button class="primary">Sign in</button></form>`;
}

render(html`<${Main} />`, document.getElementById("app"));
app.connect();
