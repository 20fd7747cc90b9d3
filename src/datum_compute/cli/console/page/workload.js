// One workload, or the workload of one instance: why it is as it is, where it runs, what changed.

import { Component, html } from "./html.js";
import { call, follow } from "./client.js";
import { Cli, Diff, Mark, Section } from "./parts.js";
import { ACTORS, age, count, precise, toneOfInstance } from "./words.js";

const MAX_ROWS = 60;
const MAX_LINES = 1000;

export function Workload({ name, models, now, line, session, ask }) {
  const found = models.get(`workloads/${name}`);
  const instance = models.get(`instances/${name}`);
  const status = models.get(`status/${name}`);
  const why = models.get(`why/${name}`);
  if (!found && !instance) {
    return html`<section class="panel"><h2>${name}</h2><p>${models.connected ? "There is no workload or instance of this name." : "Reading …"}</p><p><a href="#">All workloads</a></p></section>`;
  }
  const rollout = models.get(`rollouts/${name}`);
  const shared = { name, models, now, line, ask, writes: session.allowWrites };
  return html`
    <div class="side"><section class="panel head">
      <p><a href="#">All workloads</a>${instance ? html` / <a href="#/${instance.workload}">${instance.workload}</a>` : ""}</p>
      <h2><${Mark} state=${found ? found.health : instance.status} as=${(found || instance).stale ? "off" : ""} /> ${name}</h2>
      <p>${found ? found.healthDetail : instance.status}</p>
      ${status?.rollout?.message && html`<p>Rollout: ${status.rollout.message}</p>`}
      ${found && html`<p class="quiet">${found.image || "virtual machine"} · ${found.instanceType || "no type"} · ${status?.revision ? `revision #${status.revision} · ` : ""}${age(found.created, now)} old</p>`}
      ${instance && html`<p class="quiet">${instance.city} · ${instance.externalIP || instance.internalIP || "no address yet"} · ${age(instance.created, now)} old${instance.lastReport ? ` · no answer from its cell for ${age(instance.lastReport, now)}` : ""}</p>`}
      ${found && session.allowWrites && html`<${Actions} ...${{ found, rollout, ask }} />`}
      <${Cli} line=${found ? line("status", name) : line("instances", "describe", name)} />
    </section>
    <${Why} ...${{ name, why, now, line }} /></div>
    ${found && html`<${Instances} ...${shared} />`}
    <${Logs} key=${`logs-${name}`} name=${name} line=${line("logs", name, "--follow")} />
    ${found && html`<${History} ...${shared} />`}
    <${Events} ...${{ name, models, now, line, why, found }} />
  `;
}

class Actions extends Component {
  state = { minimum: null };

  render({ found, rollout, ask }, { minimum }) {
    const per = Math.max(1, Math.round(found.desired / Math.max(1, found.cities.length)));
    const verb = (name, text) => html`<button onClick=${() => ask({ verb: name, name: found.name })}>${text}</button>`;
    const waves = rollout?.rows.some((each) => each.wave);
    return html`<div class="actions">
      <form onSubmit=${(event) => (event.preventDefault(), ask({ verb: "scale", name: found.name, minimum: Number(minimum ?? per) }))}>
        <label>Instances per city <input type="number" min="1" max="1000" value=${minimum ?? per} onInput=${(event) => this.setState({ minimum: event.target.value })} /></label>
        <button>Scale …</button>
      </form>
      ${verb("restart", "Restart …")}
      ${found.health === "Stopped" ? verb("start", "Start …") : verb("stop", "Stop …")}
      ${waves && !rollout.done && html`${rollout.stage === "Paused" ? verb("resume", "Resume …") : verb("pause", "Pause …")} ${verb("promote", "Promote …")}`}
    </div>`;
  }
}

function Why({ name, why, now, line }) {
  if (!why) return null;
  if (why.error) return html`<${Section} id="why" title="Why"><p>${why.error}</p><//>`;
  return html`<${Section} id="why" title="Why" line=${line("why", name)}>
    <ol class="chain">
      ${why.chain.map((each) => html`<li key=${each.kind}><span class="kind">${each.kind}</span> <strong>${each.name}</strong> ${each.state} <span class="quiet">${each.note}</span></li>`)}
    </ol>
    ${why.reason
      ? html`<p class="cause">${why.message || why.reason}</p>
          <p class="quiet">${why.reason}${why.sinceSeconds !== null ? ` for ${precise(why.sinceSeconds)}` : ""}${why.usuallyUnderSeconds ? `, usually under ${precise(why.usuallyUnderSeconds)}` : ""}</p>
          <p class="actor">${why.whoCanAct === "nobody" && why.advice ? html`<span>${why.advice}</span>` : html`${ACTORS[why.whoCanAct]}${why.advice ? html`: <span>${why.advice}</span>` : ""}`}</p>
          ${(why.missing || []).map((each) => html`<p key=${each.message}>Missing: ${each.message}</p>`)}
          ${(why.meanwhile || []).map((each) => html`<p key=${each}>Meanwhile: ${each}</p>`)}
          ${why.next && html`<p>Next:</p><${Cli} line=${why.next} />`}`
      : html`<p>Nothing is wrong.</p>`}
  <//>`;
}

export function Cities({ name, models, now, line }) {
  const rollout = models.get(`rollouts/${name}`);
  const rows = models.get(`placements/${name}`) || [];
  const waves = new Map((rollout?.rows || []).map((each) => [each.placement + each.city, each]));
  const several = new Set(rows.map((each) => each.placement)).size > 1;
  const inWaves = [...waves.values()].some((each) => each.wave);
  return html`<${Section} id="cities" title="Cities" line=${line("rollout", "status", name)}>
    <div class="scroll"><table>
      <thead><tr>${inWaves && html`<th>Wave</th>`}${several && html`<th>Placement</th>`}<th>City</th><th>Ready</th><th>Up to date</th><th>Rollout</th><th></th></tr></thead>
      <tbody>${rows.map((row) => {
        const wave = waves.get(row.placement + row.city);
        const away = row.state === "stale";
        return html`<tr key=${row.placement + row.city} data-row=${row.city} class=${away ? "away" : ""}>
          ${inWaves && html`<td data-label="wave">${wave?.wave ?? "—"}</td>`}
          ${several && html`<td data-label="placement">${row.placement}</td>`}
          <th>${row.city}</th>
          <td data-label="ready">${row.ready}/${row.desired}</td>
          <td data-label="up to date">${row.upToDate}/${row.desired}</td>
          <td class="phase"><${Mark} state=${wave?.phase} as=${away ? "off" : ""} /> ${wave?.phase || row.state}</td>
          <td>${away ? html`<span class="late">no answer from the cell for over ${age(row.since, now)}; these numbers are its last report</span>` : row.message || wave?.message || ""}${row.reason && !away ? html` <span class="quiet">${row.since ? `for ${age(row.since, now)} · ` : ""}${ACTORS[row.whoCanAct]}</span>` : ""}</td>
        </tr>`;
      })}</tbody>
    </table></div>
  <//>`;
}

class Instances extends Component {
  state = { all: false };

  render({ name, models, now, line }, { all }) {
    const found = models.group("instances").filter((each) => each.workload === name);
    const order = { bad: 0, off: 1, busy: 2, good: 3 };
    found.sort((a, b) => order[toneOfInstance(a)] - order[toneOfInstance(b)] || a.city.localeCompare(b.city) || a.ordinal - b.ordinal);
    const shown = all ? found : found.slice(0, MAX_ROWS);
    return html`<${Section} full id="instances" title=${count(found.length, "instance")} line=${line("instances", "--workload", name)}>
      <div class="scroll"><table>
        <thead><tr><th>Instance</th><th>City</th><th>Status</th><th>Address</th><th>Age</th></tr></thead>
        <tbody>${shown.map((each) => html`<tr key=${each.name} class=${each.stale ? "away" : ""}>
          <th><a href="#/${each.name}">${each.name}</a></th>
          <td>${each.city}</td>
          <td><${Mark} as=${toneOfInstance(each)} /> ${each.status}${each.stale ? html` <span class="late">last report over ${age(each.lastReport, now)} ago</span>` : ""}</td>
          <td>${each.externalIP || each.internalIP || "—"}</td>
          <td>${age(each.created, now)}</td>
        </tr>`)}</tbody>
      </table></div>
      ${found.length > shown.length && html`<button class="plain" onClick=${() => this.setState({ all: true })}>Show all ${found.length}</button>`}
    <//>`;
  }
}

class Logs extends Component {
  state = { open: false, lines: [], error: "" };

  componentWillUnmount() {
    this.abort?.abort();
  }

  toggle = async () => {
    if (this.state.open) {
      this.abort.abort();
      this.setState({ open: false });
      return;
    }
    this.setState({ open: true, lines: [], error: "" });
    const abort = (this.abort = new AbortController());
    this.waiting = [];
    try {
      await follow(this.props.name, abort.signal, (line) => this.take(line));
      this.setState({ error: "The lines have ended." });
    } catch (error) {
      if (!abort.signal.aborted) this.setState({ error: error.message });
    }
  };

  take(line) {
    this.waiting.push(line);
    this.drawing ||= requestAnimationFrame(() => {
      this.drawing = 0;
      const lines = [...this.state.lines, ...this.waiting.splice(0)].slice(-MAX_LINES);
      const box = this.box;
      const follows = !box || box.scrollHeight - box.scrollTop - box.clientHeight < 40;
      this.setState({ lines }, () => follows && this.box && (this.box.scrollTop = this.box.scrollHeight));
    });
  }

  render({ line }, { open, lines, error }) {
    return html`<${Section} full id="logs" title="Logs" line=${line}>
      <button onClick=${this.toggle} aria-expanded=${open}>${open ? "Stop following" : "Follow logs"}</button>
      ${open && html`<pre class="logs" tabindex="0" role="log" aria-label="Log lines" ref=${(box) => (this.box = box)}>${lines.map(([when, name, text]) => (name ? `${when.slice(11, 19)} ${name} | ${text}\n` : `— ${text}\n`))}${!lines.length && "No lines yet."}</pre>`}
      ${open && error && html`<p role="status">${error}</p>`}
    <//>`;
  }
}

class History extends Component {
  state = { open: 0, full: null, error: "" };

  async show(number) {
    if (this.state.open === number) return this.setState({ open: 0 });
    this.setState({ open: number, full: null, error: "" });
    try {
      this.setState({ full: await call(`revision?name=${this.props.name}&number=${number}`) });
    } catch (error) {
      this.setState({ error: error.message });
    }
  }

  render({ name, models, now, line, ask, writes }, { open, full, error }) {
    const all = models.get(`history/${name}`) || [];
    return html`<${Section} full id="history" title="Revisions" line=${line("rollout", "history", name)}>
      ${!all.length && html`<p class="quiet">No revisions are recorded yet.</p>`}
      <ul class="plain-list">${all.map((each) => html`<li key=${each.revision}>
        <div class="row">
          <span><strong>#${each.revision}</strong> ${each.changes}${each.message ? ` (${each.message})` : ""} <span class="quiet">${each.image} · ${age(each.when, now)} ago${each.actor ? ` by ${each.actor}` : ""}${each.outcome ? ` · ${each.outcome}` : ""}</span></span>
          <span class="row-actions">
            <button class="plain" aria-expanded=${open === each.revision} onClick=${() => this.show(each.revision)}>Diff</button>
            ${each.active ? html`<span class="badge">active</span>` : writes && html`<button onClick=${() => ask({ verb: "undo", name, revision: each.revision })}>Undo to #${each.revision} …</button>`}
          </span>
        </div>
        ${open === each.revision && full && html`<div>
          ${full.comparedWith ? html`<p class="quiet">Compared with #${full.comparedWith}</p>` : html`<p class="quiet">The first revision.</p>`}
          ${full.diff.length > 0 && html`<${Diff} diff=${full.diff} />`}
          <${Cli} line=${line("rollout", "history", name, "--revision", each.revision)} />
        </div>`}
        ${open === each.revision && error && html`<p role="alert">${error}</p>`}
      </li>`)}</ul>
    <//>`;
  }
}

function Events({ name, models, now, line, why, found }) {
  const events = found ? models.get(`events/${name}`) || [] : why?.events || [];
  return html`<${Section} full id="events" title="Events" line=${line(found ? "workloads" : "instances", "describe", name)}>
    ${!events.length && html`<p class="quiet">None in the last hour.</p>`}
    <ul class="plain-list">${events.slice(0, 20).map((each) => html`<li key=${each.when + each.about + each.reason + each.message}>
      <${Mark} as=${each.type === "Warning" ? "bad" : "good"} /> <span class="quiet">${age(each.when, now)}</span> <strong>${each.reason}</strong>${each.count > 1 ? ` ×${each.count}` : ""} ${each.message} <span class="quiet">${each.about}</span>
    </li>`)}</ul>
  <//>`;
}
