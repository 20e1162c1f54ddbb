/* Flow drafts: unsaved texts of a flow in this browser, one for each page that was open. */

const MAX_KEPT = 8;

export class FlowDrafts {
  /* `key` names the flow and the person: two people at one browser do not see each other's. */
  constructor(key) {
    this.key = `citable-flow-draft:${key}`;
    this.mark = `citable-flow-sent:${key}`;
    this.id = crypto.randomUUID?.() ?? String(Math.random());
  }

  all() {
    try {
      return JSON.parse(localStorage.getItem(this.key)) ?? [];
    } catch {
      return [];
    }
  }

  /* Keeps the page's texts; returns whether the browser took them. */
  keep(files) {
    const others = this.all().filter((one) => one.id !== this.id);
    return this.write([{ id: this.id, at: Date.now(), ...files }, ...others].slice(0, MAX_KEPT));
  }

  drop(id = this.id) {
    const left = this.all().filter((one) => one.id !== id);
    this.write(left);
  }

  /* Goes on with a draft of before, so that it is not kept twice. */
  adopt(id) {
    this.id = id;
  }

  write(drafts) {
    try {
      if (drafts.length) localStorage.setItem(this.key, JSON.stringify(drafts));
      else localStorage.removeItem(this.key);
      return true;
    } catch {
      return false;
    }
  }

  /* Notes that the texts were sent to be saved. Whether they were tells the page that comes next. */
  sent() {
    try { sessionStorage.setItem(this.mark, this.id); } catch { /* The draft then stays and is offered. */ }
  }

  /* Returns the id of the draft that was sent last from this tab, and forgets it. */
  takeSent() {
    const id = sessionStorage.getItem(this.mark);
    sessionStorage.removeItem(this.mark);
    return id;
  }
}

/* On the page that a save leads to: what was sent is saved, its draft is no more. */
export function dropSaved() {
  for (const mark of Object.keys(sessionStorage).filter((one) => one.startsWith("citable-flow-sent:"))) {
    const drafts = new FlowDrafts(mark.slice("citable-flow-sent:".length));
    drafts.drop(drafts.takeSent());
  }
}
