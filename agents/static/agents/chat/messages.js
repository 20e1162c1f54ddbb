/* Message rendering: one turn of a conversation, as the API returns it, as an <article>. */

import { render } from "./markdown.js";
import { fill, make, openQuote } from "./citation_panel.js";

// Marks of statements that no source says count from here, above every citation.
const STATEMENT = 5000;

/** A user message, or an answer while it streams and after; `act` holds the button handlers. */
export class Turn {
  constructor(message, texts, act) {
    this.texts = texts;
    this.act = act;
    this.message = { citations: [], sources: [], notices: [], alternatives: [], content: "", ...message };
    this.head = make("div", { class: "head" });
    this.body = make("div", { class: "body" });
    this.foot = make("div", { class: "foot" });
    this.node = make("article", { class: `turn ${this.message.role}` }, this.head, this.body, this.foot);
    this.draw();
  }

  get isAnswer() { return this.message.role === "assistant"; }
  get isRunning() { return this.message.status === "running"; }

  /** Apply a stream event; return a status text, if any. */
  take({ kind, data }) {
    const message = this.message;
    if (kind === "start") message.id = data.message;
    else if (kind === "delta") message.content += data.text;
    else if (kind === "citation") message.citations.push(data);
    else if (kind === "replace") Object.assign(message, { content: data.text, citations: data.citations });
    else if (kind === "sources") message.sources = data.sources;
    else if (kind === "notice") message.notices.push(data);
    else if (kind === "rewrite") message.query = data.query ?? data.text ?? "";
    else if (["done", "stopped", "error"].includes(kind)) {
      message.status = kind;
      if (typeof data.text === "string" && kind !== "error") message.content = data.text;
      if (data.citations) message.citations = data.citations;
      if (data.outcome) message.outcome = data.outcome;
      message.grounding = data.grounding ?? {};
      if (data.error) message.error = data.error;
    }
    this.soon();
    return kind === "sources" || kind === "delta" ? this.texts.writing : null;
  }

  // Once a frame at most: a fast model sends more often than a screen can show. A long text seldomer.
  soon() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    const show = () => { this.isWaiting = false; this.draw(); };
    if (this.message.content.length > 20_000) setTimeout(show, 300);
    else requestAnimationFrame(show);
  }

  /** Update from the stored message; an unchanged text is not re-rendered. */
  renew(message) {
    const before = this.message;
    this.message = { ...before, ...message };
    const isSame = before.content === message.content && before.citations.length === message.citations.length
      && before.grounding?.verdict === message.grounding?.verdict;
    if (isSame) this.drawFoot();
    else this.draw();
  }

  drawFoot() {
    this.node.dataset.key = this.message.id ?? "";
    this.node.setAttribute("aria-busy", String(this.isRunning));
    // A comment that is being written stays, whatever else of the answer becomes known.
    for (const part of [...this.foot.children]) if (!part.matches("form.comment")) part.remove();
    this.foot.prepend(...(this.isAnswer ? this.answerFoot() : this.questionFoot()));
  }

  get unheld() {
    return (this.message.grounding?.statements ?? []).filter((one) => !["cited", "attributed"].includes(one.verdict));
  }

  /** The text with a mark behind each statement that no source says; code takes none. */
  marked() {
    const { content } = this.message;
    const signs = this.unheld.length ? Array.from(content) : [];
    let text = signs.length ? "" : content;
    let at = 0;
    this.unheld.forEach((one, index) => {
      text += signs.slice(at, one.end).join("");
      at = one.end;
      const mark = ` [${STATEMENT + index}]`;
      // Within the last cell of a row of a table, for behind it the mark would be one more.
      if ((text.match(/^ {0,3}(?:```|~~~)/gm) ?? []).length % 2 === 0) text = /\|\s*$/.test(text) ? text.replace(/\|\s*$/, `${mark} |`) : text + mark;
    });
    return text + signs.slice(at).join("");
  }

  /** How much of the answer its sources say, in words. */
  groundingText() {
    const { n_statements: all, n_found: n } = this.message.grounding ?? {};
    return all ? fill(all === 1 ? this.texts.grounding_one : this.texts.grounding, { n, all }) : "";
  }

  draw() {
    const message = this.message;
    const told = this.isAnswer ? this.groundingText() : "";
    this.head.replaceChildren(...(told ? [make("p", { class: `grounding ${message.grounding.verdict}` }, told)] : []));
    if (this.isAnswer) this.body.replaceChildren(render(this.marked(), (number) => this.mark(number)));
    else this.body.replaceChildren(message.content);
    this.drawFoot();
  }

  /** Announcement for screen readers once an answer is complete. */
  said() {
    const { texts, message } = this;
    // Not off the screen, where its last words may not stand yet.
    const blocks = [...render(this.marked(), (number) => (number < STATEMENT ? make("span") : this.mark(number))).childNodes].map((one) => one.textContent.trim());
    const notices = message.notices.map((notice) => noticeText(notice, texts));
    return [this.groundingText(), ...blocks, ...notices, endText(message, texts)].filter(Boolean).join("\n");
  }

  cited(number) { return this.message.citations.find((one) => one.number === number); }

  mark(number) {
    const statement = this.unheld[number - STATEMENT];
    if (statement) return make("span", { class: `statement ${statement.verdict}` }, this.texts[statement.verdict]);
    const known = this.cited(number);
    if (!known) return null;
    const label = `${fill(this.texts.open_quote, { n: number })} (${this.texts[known.verdict] ?? known.verdict})`;
    return make("button", { type: "button", class: `cite ${known.verdict}`, title: label, "aria-label": label, onclick: (event) => this.open("citations", number, known, event.currentTarget) }, String(number));
  }

  open(of, number, known, from) {
    openQuote({ key: this.message.id, number, of, known, from, texts: this.texts });
  }

  answerFoot() {
    const { texts, message } = this;
    const parts = [];
    if (message.query && message.query !== message.asked) parts.push(make("p", { class: "hint" }, fill(texts.rewritten, { query: message.query })));
    for (const notice of message.notices) {
      const told = noticeText(notice, texts);
      if (told) parts.push(make("p", { class: "notice" }, told));
    }
    const end = endText(message, texts);
    if (end) parts.push(make("p", { class: message.status === "error" ? "problem" : "notice" }, end));
    if (message.citations.length) parts.push(this.citations());
    if (message.sources.length) parts.push(this.sources());
    if (!this.isRunning && message.id) parts.push(this.tools());
    return parts;
  }

  citations() {
    const entries = this.message.citations.map((one) => {
      const place = [one.file_name || one.doc_id, one.page ? fill(this.texts.page, { n: one.page }) : ""].filter(Boolean).join(", ");
      return make("li", {}, make("button", { type: "button", class: "entry", onclick: (event) => this.open("citations", one.number, one, event.currentTarget) },
        make("b", {}, String(one.number)), ` ${place} `, make("span", { class: `verdict ${one.verdict}` }, this.texts[one.verdict] ?? one.verdict)));
    });
    return make("ul", { class: "citations", "aria-label": this.texts.citations }, ...entries);
  }

  sources() {
    const { sources } = this.message;
    const entries = sources.map((one, index) => make("li", {},
      make("button", { type: "button", class: "entry", onclick: (event) => this.open("sources", index + 1, one, event.currentTarget) },
        make("b", {}, one.doc_id || "–"), ` ${one.file_name || one.source?.name || ""}`, one.page_first ? `, ${fill(this.texts.page, { n: one.page_first })}` : ""),
      make("span", { class: "excerpt" }, one.content.slice(0, 160))));
    const made = make("details", { class: "sources", open: this.isOpen }, make("summary", {}, fill(this.texts.sources, { n: sources.length })), make("ol", {}, ...entries));
    made.addEventListener("toggle", () => { this.isOpen = made.open; });
    return made;
  }

  tools() {
    const { texts, message, act } = this;
    const thumb = (value, sign, name) => make("button", { type: "button", title: name, "aria-label": name, "aria-pressed": String(message.feedback === value), onclick: () => this.judge(value) }, sign);
    return make("div", { class: "tools" },
      thumb(1, `✓ ${texts.good_short}`, texts.good), thumb(-1, `✗ ${texts.bad_short}`, texts.bad),
      make("button", { type: "button", onclick: (event) => copy(message.content, event.currentTarget, texts) }, texts.copy),
      make("button", { type: "button", onclick: () => act.regenerate(this) }, texts.regenerate),
      this.node.nextElementSibling ? make("button", { type: "button", onclick: () => act.branch(this) }, texts.go_on) : null,
      ...this.versions());
  }

  questionFoot() {
    if (!this.message.id) return [];
    return [make("div", { class: "tools" },
      this.message.parent ? make("button", { type: "button", onclick: () => this.act.edit(this) }, this.texts.edit) : null, ...this.versions())];
  }

  versions() {
    const all = this.message.alternatives;
    const at = all.indexOf(this.message.id);
    if (all.length < 2) return [];
    const step = (by, sign, name) => make("button", { type: "button", title: name, "aria-label": name, disabled: !all[at + by], onclick: () => this.act.choose(all[at + by]) }, sign);
    return [step(-1, "‹", this.texts.before), make("span", { class: "hint", title: fill(this.texts.version, { n: at + 1, all: all.length }) }, `${at + 1}/${all.length}`), step(1, "›", this.texts.after)];
  }

  /** Ask for a comment on a thumb, and keep both. */
  async judge(value) {
    const { texts, message } = this;
    const feedback = message.feedback === value ? null : value;
    this.foot.querySelector("form.comment")?.remove();
    if (!await this.act.feedback(this, { feedback })) return;
    if (feedback === null) return;
    const field = make("textarea", { rows: "2", maxlength: "2000", "aria-label": texts.comment, placeholder: texts.comment });
    field.value = message.feedback_comment ?? "";
    const form = make("form", { class: "comment" }, field,
      make("button", { type: "submit", class: "primary" }, texts.save), make("button", { type: "button", onclick: () => form.remove() }, texts.cancel));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (!await this.act.feedback(this, { feedback, feedback_comment: field.value })) return;
      form.remove();
      this.foot.append(make("p", { class: "notice", role: "status" }, texts.thanks));
    });
    this.foot.append(form);
    field.focus();
  }
}

/* Why an answer ended before its end, if it did. */
function endText({ status, error }, texts) {
  if (status === "stopped") return texts.stopped;
  return status === "error" ? [error?.message, error?.hint].filter(Boolean).join(" ") || texts.failed : "";
}

function noticeText(notice, texts) {
  if (notice.text) return notice.text;
  if (notice.dropped_sentences) return fill(texts.dropped, { n: notice.dropped_sentences });
  if (notice.kept) return texts.kept;
  return [notice.error?.message, notice.error?.hint].filter(Boolean).join(" ");
}

async function copy(text, button, texts) {
  await navigator.clipboard?.writeText(text).catch(() => {});
  button.textContent = texts.copied;
  setTimeout(() => { button.textContent = texts.copy; }, 1500);
}
