// The map: a city has a point for each instance, coloured by its state, and a ring for the wave of
// a rollout that it belongs to. Points of one state are one path, so a thousand cost little.

import { html } from "./html.js";
import { HEIGHT, PLACES, WIDTH, landPath } from "./world.js";
import { TONES, count, lasting, tone, toneOfInstance } from "./words.js";

const LAND = landPath();
const GOLDEN = Math.PI * (3 - Math.sqrt(5));
const PHASES = ["Failed", "Undone", "Blocked", "Updating", "Creating", "Stopping", "Pending", "Soaking", "Waiting", "Skipped", "Stopped", "Done"];

const SPACING = 9.5; // between two points, where there is room
const LEAST_SPACING = 1.6;
const CROWDED = 30; // the radius that the points of the largest city may take
const NARROW = 720; // pixels, as in the style sheet
const LEAST_WIDTH = 560; // of what a narrow map shows

// Points in a spiral: the first in the centre, each next one further out.
function place(index, spacing) {
  const distance = spacing * Math.sqrt(index);
  return [distance * Math.cos(index * GOLDEN), distance * Math.sin(index * GOLDEN)];
}

function points(instances, spacing) {
  const paths = {};
  instances.forEach((each, index) => {
    const [x, y] = place(index, spacing);
    const key = toneOfInstance(each);
    paths[key] = `${paths[key] || ""}M${x.toFixed(1)} ${y.toFixed(1)}h0`;
  });
  return paths;
}

// The ring of a city: of the phase that most needs to be seen, among rollouts in progress.
function ringOf(rows) {
  const rolling = rows.filter((each) => each.phase !== "Done" || each.ofRollout);
  rolling.sort((a, b) => PHASES.indexOf(a.phase) - PHASES.indexOf(b.phase));
  return rolling[0];
}

// What the map shows: the world, or on a narrow page only where the cities are.
function frame(cities) {
  if (innerWidth > NARROW || !cities.length) return [0, 0, WIDTH, HEIGHT];
  const xs = cities.map((each) => each.at[0]);
  const middle = (Math.min(...xs) + Math.max(...xs)) / 2;
  const width = Math.min(WIDTH, Math.max(LEAST_WIDTH, Math.max(...xs) - Math.min(...xs) + 200));
  return [Math.min(WIDTH - width, Math.max(0, middle - width / 2)), 0, width, HEIGHT];
}

// Cities whose rings or labels would touch move apart, so that each can be read.
function spread(cities, radius, size) {
  const placed = cities.map((each) => ({ ...each, at: [...(PLACES.get(each.city) || [])] }));
  const known = placed.filter((each) => each.at.length);
  const half = (each) => Math.max(radius(each) + 6, size * 0.3 * (each.unreachableSince ? 13 : each.ring?.wave ? 7 : 4));
  const lines = (each) => 1 + (each.ring?.wave ? 1 : 0) + (each.unreachableSince ? 1 : 0);
  for (let round = 0; round < 40; round++) {
    for (const a of known) {
      for (const b of known) {
        if (a === b || a.at[1] > b.at[1]) continue;
        const beside = half(a) + half(b) + 6 - Math.abs(b.at[0] - a.at[0]);
        const below = radius(a) + radius(b) + 12 + lines(a) * 1.15 * size - (b.at[1] - a.at[1]);
        if (beside <= 0 || below <= 0) continue;
        if (beside < below) {
          const side = b.at[0] >= a.at[0] ? 1 : -1;
          a.at[0] -= (side * beside) / 2;
          b.at[0] += (side * beside) / 2;
        } else {
          a.at[1] -= below / 2;
          b.at[1] += below / 2;
        }
      }
    }
  }
  for (const each of known) {
    const r = radius(each) + 8;
    const foot = r + 1.15 * lines(each) * size;
    each.at = [Math.min(WIDTH - r, Math.max(r, each.at[0])), Math.min(HEIGHT - foot, Math.max(r, each.at[1]))];
  }
  return [known, placed.filter((each) => !each.at.length)];
}

export function describeCity(city, instances, ring, now) {
  const counts = {};
  instances.forEach((each) => {
    const word = each.stale ? "last report" : each.status.split(" ")[0];
    counts[word] = (counts[word] || 0) + 1;
  });
  const parts = Object.entries(counts).map(([word, number]) => `${number} ${word}`);
  const since = city.unreachableSince;
  if (since) parts.push(`no answer for ${lasting((now - Date.parse(since)) / 1000)}`);
  if (ring) parts.push(`${ring.wave ? `wave ${ring.wave}: ` : ""}${ring.phase}`);
  return `${city.city}: ${parts.join(", ") || "nothing runs here"}`;
}

export function WorldMap({ cities, instances, rows, now, selected, onSelect }) {
  const of = (list, city) => list.filter((each) => each.city.toUpperCase() === city.toUpperCase());
  const shown = cities.map((each) => ({
    ...each,
    instances: of(instances, each.city),
    ring: ringOf(of(rows, each.city)),
  }));
  const most = Math.max(1, ...shown.map((each) => each.instances.length));
  const spacing = Math.max(LEAST_SPACING, Math.min(SPACING, CROWDED / Math.sqrt(most)));
  const radius = (each) => Math.max(11, spacing * Math.sqrt(each.instances.length) + 5);
  // Text keeps its size on the screen, however much the map is scaled.
  const share = innerWidth > NARROW ? 0.58 : 1;
  const textSize = (width) => (15 * width) / Math.max(300, share * Math.min(innerWidth, 1400) - 44);
  // How much is shown depends on where the cities are, and that on the size of their labels.
  const first = textSize(innerWidth > NARROW ? WIDTH : LEAST_WIDTH);
  const size = textSize(frame(spread(shown, radius, first)[0])[2]);
  const [known, unknown] = spread(shown, radius, size);
  const view = frame(known);
  return html`<figure class="map">
    <svg viewBox=${view.join(" ")} font-size=${size.toFixed(1)} role="group" aria-label="Cities on a map of the world">
      <path class="land" d=${LAND} />
      ${known.map((each) => {
        const origin = PLACES.get(each.city);
        return html`<line key=${`line-${each.city}`} class="leader" x1=${origin[0]} y1=${origin[1]} x2=${each.at[0]} y2=${each.at[1]} />`;
      })}
      ${known.map((each) => {
        const paths = points(each.instances, spacing);
        const r = radius(each);
        const away = each.status !== "Available";
        return html`<g
          key=${each.city}
          class="city ${away ? "away" : ""} ${selected === each.city ? "selected" : ""}"
          transform="translate(${each.at[0].toFixed(1)} ${each.at[1].toFixed(1)})"
          tabindex="0"
          role="button"
          data-city=${each.city}
          data-phase=${each.ring?.phase || ""}
          aria-pressed=${selected === each.city}
          aria-label=${describeCity(each, each.instances, each.ring, now)}
          onClick=${() => onSelect(each.city)}
          onKeyDown=${(event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), onSelect(each.city))}
        >
          <title>${describeCity(each, each.instances, each.ring, now)}</title>
          <circle class="base" r=${r} />
          ${each.ring && html`<circle class="ring ${tone(each.ring.phase)} phase-${each.ring.phase}" r=${r + 4} />`}
          ${Object.keys(TONES).map((key) => paths[key] && html`<path key=${key} class="points ${key}" d=${paths[key]} stroke-width=${spacing * 0.92} />`)}
          <text y=${r + 5 + size}>${each.city}</text>
          ${each.ring?.wave && html`<text class="wave" y=${r + 5 + 2.1 * size}>wave ${each.ring.wave}</text>`}
          ${each.unreachableSince && html`<text class="late" y=${r + 5 + (each.ring?.wave ? 3.2 : 2.1) * size}>no answer ${lasting((now - Date.parse(each.unreachableSince)) / 1000)}</text>`}
        </g>`;
      })}
    </svg>
    <figcaption>
      ${Object.entries({ good: "available", busy: "starting or waiting", bad: "failed", off: "stopped or last report" }).map(
        ([key, text]) => html`<span key=${key}><i class="mark ${key}">${TONES[key].mark}</i> ${text}</span>`,
      )}
      <span><i class="mark ring-mark">○</i> in a rollout</span>
      ${unknown.length > 0 && html`<span>Not on the map: ${unknown.map((each) => html`<button key=${each.city} class="link" onClick=${() => onSelect(each.city)}>${each.city} (${count(each.instances.length, "instance")})</button> `)}</span>`}
    </figcaption>
  </figure>`;
}
