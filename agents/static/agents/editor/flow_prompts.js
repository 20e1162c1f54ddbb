/* Flow prompts: the prompt files of a flow, which are fields of the page's own form. */

export class FlowPrompts {
  constructor(section, onChange) {
    this.section = section;
    this.onChange = onChange;
    section.addEventListener("input", () => { this.growLast(); onChange(); });
  }

  rows() {
    return [...this.section.querySelectorAll(".flow-prompt")].map((row) => ({ row, path: row.querySelector("[name=path]"), text: row.querySelector("[name=text]") }));
  }

  list() {
    return this.rows().map((one) => ({ path: one.path.value.trim(), text: one.text.value })).filter((one) => one.path);
  }

  set(path, text) {
    const found = this.rows().find((one) => one.path.value.trim() === path) ?? this.rows().find((one) => !one.path.value.trim() && !one.text.value);
    found.path.value = path;
    found.text.value = text;
    this.growLast();
    this.onChange();
  }

  rename(path, to) {
    this.rows().find((one) => one.path.value.trim() === path).path.value = to;
    this.onChange();
  }

  /* Puts all prompts in place of those that are there. */
  replace(prompts) {
    for (const { path, text } of this.rows()) [path.value, text.value] = ["", ""];
    for (const one of prompts) this.set(one.path, one.text);
    this.onChange();
  }

  // There is always one more row to write into.
  growLast() {
    const last = this.rows().at(-1);
    if (!last.path.value.trim() && !last.text.value) return;
    const more = last.row.cloneNode(true);
    for (const field of more.querySelectorAll("input, textarea")) field.value = "";
    last.row.after(more);
  }
}
