/* Flow check: asks the server what is wrong or doubtful, a moment after the last change. */

const WAIT_MS = 500;

export class FlowCheck {
  /* `onFound` gets findings of level, line, column and message; `onState` a sentence, empty for none. */
  constructor({ address, token, texts, files, onFound, onState }) {
    Object.assign(this, { address, token, texts, files, onFound, onState });
    this.number = 0;
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.now(), WAIT_MS);
  }

  async now() {
    this.number += 1;
    const { number } = this;
    const { yaml, prompts } = this.files();
    const body = JSON.stringify({ files: { ...Object.fromEntries(prompts.map((one) => [one.path, one.text])), "flow.yaml": yaml } });
    let answer = null;
    let told = null;
    try {
      answer = await fetch(this.address, { method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json", "X-CSRFToken": this.token }, body });
      told = await answer.json();
    } catch { /* Said below. */ }
    // An answer to what is no more there says nothing.
    if (number !== this.number) return;
    if (!answer || !told) return this.onState(this.texts.unreachable);
    if (answer.ok) return this.found(told);
    const { message, hint, params } = told.error ?? {};
    const sentence = [message, hint].filter(Boolean).join(" ");
    if (params?.line) return this.found([{ level: "error", line: Number(params.line), column: Number(params.column), message: sentence }]);
    if (answer.status === 400) return this.found([{ level: "error", line: 1, column: 1, message: sentence }]);
    return this.onState(sentence || this.texts.unreachable);
  }

  found(findings) {
    this.onState("");
    this.onFound(findings);
  }
}
