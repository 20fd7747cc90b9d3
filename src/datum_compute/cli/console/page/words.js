// Times, counts and marks, in the words of the command line.

export function age(time, now) {
  const seconds = Math.max(0, Math.floor((now - Date.parse(time)) / 1000));
  if (Number.isNaN(seconds)) return "—";
  return lasting(seconds);
}

export function lasting(seconds) {
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "m"]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)}${unit}`;
  }
  return `${Math.floor(seconds)}s`;
}

// `1m12s`: two units, for how long something has lasted.
export function precise(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  for (let i = 0; i < 3; i++) {
    if (seconds >= units[i][0]) {
      const rest = Math.floor((seconds % units[i][0]) / units[i + 1][0]);
      return Math.floor(seconds / units[i][0]) + units[i][1] + (rest ? rest + units[i + 1][1] : "");
    }
  }
  return `${Math.floor(seconds)}s`;
}

export const count = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

export const ACTORS = { user: "You can act", platform: "The platform must act", nobody: "No action needed: in progress" };

// The state of a thing as a colour and a mark; never the colour alone.
export const TONES = {
  good: { mark: "●", words: ["Available", "Done", "Soaking"] },
  busy: { mark: "◐", words: ["Starting", "Pending", "Creating", "Updating", "Waiting", "Unknown", "Destroying", "Removing", "Stopping"] },
  bad: { mark: "▲", words: ["Failed", "Unavailable", "Degraded", "Blocked", "Undone"] },
  off: { mark: "■", words: ["Stopped", "Skipped", "Unreachable"] },
};

export function tone(state = "") {
  const word = state.split(" ")[0];
  for (const [name, { words }] of Object.entries(TONES)) if (words.includes(word)) return name;
  return "busy";
}

export const toneOfInstance = (each) => (each.stale ? "off" : tone(each.status));

// What needs attention comes first: what is down, then what is short, then what is in doubt.
const ORDER = { Unavailable: 0, Degraded: 1, Unknown: 2, Destroying: 5, Stopped: 6, Available: 9 };
const FAILED = ["WaveFailed", "RolledBack"];

export function urgency(workload, placements = [], rollout) {
  const own = ORDER[workload.health] ?? 2;
  const blocked = placements.some((each) => each.reason && each.whoCanAct !== "nobody" && !each.stop);
  if (own < 9) return own;
  if (blocked || FAILED.includes(rollout?.stage)) return 1.5;
  if (workload.stale) return 2;
  return rollout && !rollout.done ? 4 : 9;
}

export const needsAttention = (found) => found < 3;
