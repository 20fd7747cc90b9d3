// The plan of a change: what it will do, and the command that does the same, before anything is
// written. A workload that changed meanwhile is planned again.

import { Component, createRef, html } from "./html.js";
import { call } from "./client.js";
import { Cli, Diff } from "./parts.js";
import { sentence } from "./words.js";

const TITLES = { scale: "Scale", restart: "Restart", undo: "Undo", pause: "Pause", resume: "Resume", promote: "Promote", stop: "Stop", start: "Start" };

export class PlanDialog extends Component {
  dialog = createRef();
  close = createRef();
  state = { done: null, error: null, busy: false };

  componentDidMount() {
    this.dialog.current.showModal();
  }

  componentDidUpdate() {
    if (this.state.done) this.close.current?.focus();
  }

  run = async () => {
    const { change, plan } = this.props.asked;
    this.setState({ busy: true, error: null });
    try {
      this.setState({ done: await call("run", { ...change, generation: plan.generation }) });
    } catch (error) {
      this.setState({ error });
      if (error.status === 409) this.props.onStale();
    }
    this.setState({ busy: false });
  };

  render({ asked: { change, plan, error: refused }, onClose }, { done, error, busy }) {
    const title = `${TITLES[change.verb]} ${change.name}`;
    const failure = error || refused;
    return html`<dialog ref=${this.dialog} onClose=${onClose} aria-labelledby="plan-title">
      <h2 id="plan-title">${title}</h2>
      ${failure && html`<p class="banner bad" role="alert">${sentence(failure.message)}${failure.hint ? html`<br /><code>${failure.hint}</code>` : ""}</p>`}
      ${!done && plan && html`
        <h3>Plan</h3>
        ${plan.lines.map((each) => html`<p key=${each} class="plan-line">${each}</p>`)}
        ${plan.diff.length > 0 && html`<${Diff} diff=${plan.diff} />`}
        <p class="quiet">${plan.writes ? "Nothing has changed yet." : "There is nothing to change."} The same on the command line:</p>
        <${Cli} line=${plan.command} />`}
      ${done && html`<p role="status">Done.</p>${done.lines.map((each) => html`<p key=${each}>${each}</p>`)}`}
      <div class="actions">
        ${!done && plan?.writes > 0 && html`<button class="primary" disabled=${busy} onClick=${this.run}>${TITLES[change.verb]} now</button>`}
        <button ref=${this.close} onClick=${() => this.dialog.current.close()}>${done || !plan?.writes ? "Close" : "Cancel"}</button>
      </div>
    </dialog>`;
  }
}
