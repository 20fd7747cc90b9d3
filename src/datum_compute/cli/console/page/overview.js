// All workloads, with what needs attention first, and the quota of the project.

import { html } from "./html.js";
import { Bar, Cli, Mark, Section } from "./parts.js";
import { ACTORS, age, count, needsAttention, tone, urgency } from "./words.js";

export function Overview({ models, now, line }) {
  const all = models.group("workloads").map((each) => {
    const placements = models.get(`placements/${each.name}`) || [];
    const rollout = models.get(`rollouts/${each.name}`);
    return { ...each, rows: placements, rollout, urgency: urgency(each, placements, rollout) };
  });
  all.sort((a, b) => a.urgency - b.urgency || a.name.localeCompare(b.name));
  const urgent = all.filter((each) => needsAttention(each.urgency));
  const others = all.filter((each) => !needsAttention(each.urgency));
  return html`
    <${Section} id="attention" title=${urgent.length ? `Needs attention (${urgent.length})` : models.heard ? "Nothing needs attention" : "Needs attention"}>
      ${!models.heard && html`<${Reading} />`}
      <ul class="cards">${urgent.map((each) => html`<${Card} key=${each.name} ...${{ each, now, line }} />`)}</ul>
    <//>
    <${Section} id="workloads" title="Workloads" line=${line("workloads")}>
      ${!models.heard && html`<${Reading} />`}
      ${models.heard > 0 && !all.length && html`<p>No workloads in this project.</p>`}
      ${!all.length && html`<${Cli} line=${line("deploy", "NAME", "--image=IMAGE", "--city=CITY")} />`}
      <ul class="cards">${others.map((each) => html`<${Card} key=${each.name} ...${{ each, now, line }} />`)}</ul>
    <//>
  `;
}

// Before the first data: nothing is known, also not that there is nothing.
function Reading() {
  return html`<p class="quiet">Reading …</p>`;
}

function Card({ each, now, line }) {
  const wrong = each.rows.filter((row) => row.reason);
  const rolling = each.rollout && !each.rollout.done ? each.rollout : null;
  return html`<li class="card ${tone(each.health)}">
    <a class="card-link" href="#/${each.name}" data-item>
      <span class="card-name"><${Mark} state=${each.health} as=${each.stale ? "off" : ""} /> ${each.name}</span>
      <span class="card-count">${each.ready}/${each.desired} ready</span>
    </a>
    <p>${each.healthDetail}</p>
    ${rolling?.message && html`<p class="quiet">Rollout: ${rolling.message}</p>`}
    ${wrong.map((row) => html`<${Reason} key=${row.placement + row.city} ...${{ row, now }} />`)}
    <p class="quiet">${each.cities.join(", ")} · ${each.image || "virtual machine"} · ${age(each.created, now)} old</p>
    ${wrong.length > 0 && html`<${Cli} line=${line("why", each.name)} />`}
  </li>`;
}

export function Reason({ row, now }) {
  return html`<div class="reason">
    <p><strong>${row.city}</strong> ${row.message || row.reason}${row.since ? html` <span class="quiet">for ${age(row.since, now)}</span>` : ""}</p>
    <p class="actor">${ACTORS[row.whoCanAct] || ""}</p>
  </div>`;
}

export function Quota({ models, line }) {
  const all = models.group("quota");
  return html`<${Section} id="quota" title="Quota" line=${line("quota")}>
    ${all.map((each) => html`<div key=${each.resource} class="quota">
      <span>${each.resource}</span>
      <${Bar} share=${each.usage} label="${each.used} of ${each.limit} ${each.unit} used" />
      <span class="quiet">${each.used} of ${each.limit} ${each.unit}, ${Math.round(each.usage * 100)} %</span>
    </div>`)}
    ${!models.heard && html`<${Reading} />`}
    ${models.heard > 0 && !all.length && html`<p>No quota is set for compute in this project.</p>`}
    ${all.flatMap((each) => each.cities || []).filter((city) => city.refused).map((city) => html`<p key=${city.city}><${Mark} as="bad" /> ${city.city}: ${count(city.refused, "instance")} refused: ${city.messages.join("; ")}</p>`)}
  <//>`;
}
