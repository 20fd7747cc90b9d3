// The session with the platform: a link is exchanged once, and its token stays in this module.
// Models arrive as a stream of messages; a stream that breaks is opened again where it ended.

let token = "";

export async function begin() {
  const code = location.hash.slice(1);
  // The link is used once: what stays in the history of the browser opens nothing.
  history.replaceState(null, "", location.pathname);
  if (!code || code.startsWith("/")) throw new Ended("This page has no session.");
  const session = await call("session", { code });
  token = session.token;
  return session;
}

export class Ended extends Error {}

export async function call(path, body) {
  const response = await request(path, body);
  return response.json();
}

async function request(path, body, options = {}) {
  const headers = { ...(token && { authorization: `Bearer ${token}` }), ...options.headers };
  let response;
  try {
    response = await fetch(`/console/${path}`, {
      ...options,
      headers,
      credentials: "omit",
      method: body ? "POST" : "GET",
      body: body && JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The platform does not answer.");
  }
  if (response.ok) return response;
  const found = await response.json().catch(() => ({}));
  const text = found.error || `The platform answered with ${response.status}.`;
  const failure = response.status === 401 ? new Ended(text) : new Error(text);
  failure.hint = found.hint;
  failure.status = response.status;
  throw failure;
}

// Calls `each` with every line of a text that does not end, and returns when it ends.
async function lines(response, each) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    parts.forEach(each);
  }
}

// The models: a map by key that `on.change` is called about, and what keeps it current.
export class Models {
  constructor(on) {
    this.on = on;
    this.all = new Map();
    this.last = "";
    this.connected = false;
    this.skew = 0; // the platform's clock, as far as it differs from this one
    this.heard = 0;
  }

  focus(name) {
    if (this.abort && this.name === name) return;
    this.name = name;
    this.abort?.abort();
    this.abort = new AbortController();
    this.run(name, this.abort.signal);
  }

  async run(name, signal) {
    for (let wait = 500; ; wait = Math.min(wait * 2, 5000)) {
      try {
        await this.read(name, signal, () => (wait = 500));
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Ended) return this.on.ended(error);
      }
      if (signal.aborted) return;
      this.connected = false;
      this.on.change();
      await new Promise((done) => setTimeout(done, wait));
    }
  }

  async read(name, signal, heard) {
    const headers = { accept: "text/event-stream", "last-event-id": this.last };
    const response = await request(`stream?focus=${name}`, null, { headers, signal });
    let message = {};
    await lines(response, (line) => {
      if (line) {
        const at = line.indexOf(": ");
        message[line.slice(0, at)] = line.slice(at + 2);
      } else if (message.data) {
        heard();
        this.take(message);
        message = {};
      }
    });
  }

  take({ id, event, data }) {
    const { now, models } = JSON.parse(data);
    if (event === "snapshot") this.all.clear();
    for (const [key, value] of Object.entries(models)) {
      if (value === null) this.all.delete(key);
      else this.all.set(key, value);
    }
    this.last = id;
    this.connected = true;
    this.heard = Date.now();
    this.skew = Date.parse(now) - this.heard;
    this.on.change();
  }

  get now() {
    return Date.now() + this.skew;
  }

  get(key) {
    return this.all.get(key);
  }

  group(group) {
    const found = [];
    for (const [key, value] of this.all) if (key.startsWith(`${group}/`)) found.push(value);
    return found;
  }
}

// The log lines of a workload or an instance, as they come.
export async function follow(name, signal, on) {
  const response = await request(`logs?name=${name}`, null, { signal });
  await lines(response, (line) => line && on(JSON.parse(line)));
}
