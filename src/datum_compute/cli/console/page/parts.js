// Small parts that several views share.

import { Component, html } from "./html.js";
import { TONES, tone } from "./words.js";

export const Mark = ({ state, as }) => {
  const key = as || tone(state);
  return html`<i class="mark ${key}" aria-hidden="true">${TONES[key].mark}</i>`;
};

// The command that shows or does the same, to copy.
export class Cli extends Component {
  state = { copied: false };

  copy = async () => {
    await navigator.clipboard.writeText(this.props.line).catch(() => {});
    this.setState({ copied: true });
    setTimeout(() => this.setState({ copied: false }), 1500);
  };

  render({ line }, { copied }) {
    return html`<div class="cli">
      <code>${line}</code>
      <button class="plain" onClick=${this.copy} aria-label="Copy: ${line}">${copied ? "Copied" : "Copy"}</button>
    </div>`;
  }
}

export const Section = ({ title, id, line, full, children }) => html`<section class="panel ${full ? "full" : ""}" id=${id} aria-labelledby="${id}-title">
  <h2 id="${id}-title">${title}</h2>
  ${children}
  ${line && html`<${Cli} line=${line} />`}
</section>`;

export const Bar = ({ share, label }) => html`<div class="bar ${share >= 1 ? "bad" : share >= 0.8 ? "busy" : "good"}" role="img" aria-label=${label}>
  <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect width=${Math.min(100, Math.max(share > 0 ? 2 : 0, share * 100))} height="10" /></svg>
</div>`;

export const Diff = ({ diff }) => html`<table class="diff">
  <thead><tr><th>Field</th><th>Before</th><th>After</th></tr></thead>
  <tbody>
    ${diff.map((each) => html`<tr key=${each.field}><th>${each.field}</th><td><del>${text(each.old)}</del></td><td><ins>${text(each.new)}</ins></td></tr>`)}
  </tbody>
</table>`;

const text = (value) => (value === null || value === undefined || value === "" ? "—" : typeof value === "object" ? JSON.stringify(value) : String(value));
