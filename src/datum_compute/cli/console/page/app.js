// The page: what is shown follows from the models, the route and what the user has opened.

import { Component, html, render } from "./html.js";
import { Models, begin, call } from "./client.js";
import { WorldMap } from "./map.js";
import { PlanDialog } from "./plan.js";
import { Overview, Quota } from "./overview.js";
import { Cities, Workload } from "./workload.js";
import { Cli } from "./parts.js";
import { lasting, sentence } from "./words.js";

const THEMES = ["", "dark", "light"];

class App extends Component {
  state = { session: null, ended: null, name: "", city: "", theme: "", asked: null, tick: 0 };

  async componentDidMount() {
    try {
      const session = await begin();
      this.models = new Models({
        change: () => this.draw(),
        ended: (ended) => this.setState({ ended }),
      });
      document.title = `${session.project} · Console`;
      this.setState({ session });
      addEventListener("hashchange", () => this.route());
      addEventListener("keydown", (event) => this.key(event));
      this.route();
      setInterval(() => this.draw(), 1000);
    } catch (ended) {
      this.setState({ ended });
    }
  }

  // However many messages come, the page is drawn once a frame at most.
  draw() {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = 0;
      this.setState({ tick: this.state.tick + 1 });
    });
  }

  route() {
    const name = location.hash.startsWith("#/") ? decodeURIComponent(location.hash.slice(2)) : "";
    const known = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/.test(name) ? name : "";
    this.setState({ name: known, city: "" });
    this.models.focus(known);
    document.getElementById("main")?.focus();
  }

  // j and k move through the workloads, Escape goes back; everything else is Tab and Enter.
  key(event) {
    // A dialog closes by itself, and its focus may be lost with a button that is gone.
    if (event.target.closest("input, select") || this.state.asked || event.metaKey || event.ctrlKey || event.altKey) return;
    if (event.key === "Escape") location.hash = "";
    if (event.key !== "j" && event.key !== "k") return;
    const all = [...document.querySelectorAll("[data-item]")];
    const at = all.indexOf(document.activeElement);
    const next = event.key === "j" ? Math.min(at + 1, all.length - 1) : Math.max(at - 1, 0);
    all[next]?.focus();
  }

  setTheme = () => {
    const theme = THEMES[(THEMES.indexOf(this.state.theme) + 1) % THEMES.length];
    document.documentElement.dataset.theme = theme;
    this.setState({ theme });
  };

  ask = async (change) => {
    try {
      this.setState({ asked: { change, plan: await call("plan", change) } });
    } catch (error) {
      this.setState({ asked: { change, error } });
    }
  };

  render(_, { session, ended, name, city, theme, asked }) {
    if (ended) return html`<${Gone} error=${ended} />`;
    if (!session) return html`<header class="top"><h1>Console</h1><p class="quiet">Connecting …</p></header>`;
    const models = this.models;
    const now = models.now;
    const line = (...words) => `${session.program} ${words.join(" ")}${session.flags}`;
    const shared = { models, now, line, session, ask: this.ask };
    const instances = models.group("instances").filter((each) => !name || each.workload === name || each.name === name);
    const owner = models.get(`workloads/${name}`) ? name : instances[0]?.workload;
    const rows = models
      .group("rollouts")
      .filter((each) => (name ? each.name === owner : !each.done))
      .flatMap((each) => each.rows.filter((row) => !each.done || row.wave).map((row) => ({ ...row, ofRollout: true })));
    const problems = [...models.all].filter(([key]) => key.startsWith("problems/"));
    return html`
      <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), document.getElementById("main").focus())}>Skip to the content</a>
      <header class="top">
        <h1><a href="#">${session.project}</a></h1>
        <${Connection} models=${models} />
        <span class="quiet">${session.allowWrites ? "can change workloads" : "read-only"}</span>
        <button class="plain" onClick=${this.setTheme}>Theme: ${theme || "system"}</button>
      </header>
      ${problems.map(([key, text]) => html`<p key=${key} class="banner bad" role="alert">${key.slice(9)}: ${text}</p>`)}
      <main id="main" tabindex="-1">
        <section class="place" aria-label="Map">
          <${WorldMap}
            cities=${models.group("cities").filter((each) => each.city)}
            ...${{ instances, rows, now, selected: city }}
            onSelect=${(found) => this.setState({ city: found === city ? "" : found })}
          />
          ${models.get(`workloads/${name}`) && html`<${Cities} name=${name} ...${shared} />`}
          ${city && html`<${City} city=${models.get(`cities/${city}`)} ...${{ now, line, instances }} />`}
        </section>
        ${name ? html`<${Workload} key=${name} name=${name} ...${shared} />` : html`<${Overview} ...${shared} /><${Quota} ...${shared} />`}
      </main>
      ${asked && html`<${PlanDialog} asked=${asked} onClose=${() => this.setState({ asked: null })} onStale=${() => this.ask(asked.change)} />`}
    `;
  }
}

function Connection({ models }) {
  if (models.connected) return html`<span class="live"><i class="mark good">●</i> live</span>`;
  if (!models.heard) return html`<span class="quiet">Connecting …</span>`;
  const seconds = (Date.now() - models.heard) / 1000;
  return html`<span class="late" role="status"><i class="mark bad">▲</i> no connection; as of ${lasting(seconds)} ago</span>`;
}

function City({ city, now, line, instances }) {
  if (!city) return null;
  const here = instances.filter((each) => each.city === city.city);
  const since = city.unreachableSince;
  return html`<div class="panel" id="city">
    <h2>${city.city} <span class="quiet">${city.displayName}</span></h2>
    <p>${city.status}${since ? ` — no answer for ${lasting((now - Date.parse(since)) / 1000)}; what is shown is its last report.` : ""}</p>
    <ul class="plain-list">
      ${here.slice(0, 40).map((each) => html`<li key=${each.name}><a href="#/${each.workload}">${each.workload}</a> ${each.name}: ${each.status}</li>`)}
    </ul>
    ${here.length > 40 && html`<p class="quiet">and ${here.length - 40} more</p>`}
    <${Cli} line=${line("instances", "--city", city.city)} />
  </div>`;
}

function Gone({ error }) {
  return html`<main class="gone" id="main">
    <h1>Console</h1>
    <p role="alert">${sentence(error.message)}</p>
    <p>A link opens the console once, within a minute. Ask for a new one:</p>
    <${Cli} line="datumctl-compute console" />
  </main>`;
}

render(html`<${App} />`, document.getElementById("app"));
