/* Flow editor (controller): one text, shown as YAML and as a canvas; drafts, checks, and the page's own form. */

import { FlowCheck } from "./flow_check.js";
import { FlowCode } from "./flow_code.js";
import { FlowDrafts } from "./flow_drafts.js";
import { FlowPrompts } from "./flow_prompts.js";
import { choices, resolve, skeleton } from "./flow_schema.js";
import { END } from "./flow_text.js";

const data = JSON.parse(document.getElementById("flow-data").textContent);
const { texts } = data;
const $ = (id) => document.getElementById(id);
const form = document.querySelector(".flow-edit");
const field = $("flow-yaml");
const NARROW = matchMedia("(max-width: 64rem)");

let flow = null;
let findings = [];
let schema = null;
let chosen = { nodes: [], edges: [] };
let canvas = null;
let forms = null;

/* The worker, asked by numbered messages. */
const worker = new Worker(new URL("./flow_worker.js", import.meta.url), { type: "module" });
const asked = new Map();
worker.addEventListener("message", ({ data: { id, value, error } }) => {
  const { resolve: done, reject } = asked.get(id);
  asked.delete(id);
  if (error === undefined) done(value);
  else reject(new Error(error));
});
function ask(task) {
  const id = crypto.getRandomValues(new Uint32Array(1))[0];
  return new Promise((done, reject) => {
    asked.set(id, { resolve: done, reject });
    worker.postMessage({ id, ...task });
  });
}

/* Edits of the canvas, one after the other; one whose text was changed meanwhile is done anew. */
let queue = Promise.resolve();
function edit(change) {
  queue = queue.then(async () => {
    try {
      for (;;) {
        const before = code.text;
        const after = await ask({ task: "edit", text: before, edit: change });
        if (code.text !== before) continue;
        if (change.kind === "rename") canvas.select({ node: change.to, isQuiet: true });
        code.replace(after, change.kind !== "move");
        // What was joined is chosen, for its condition to be said.
        if (change.kind === "addEdge") canvas.select({ edge: `${change.source} → ${change.target} 1` });
        return;
      }
    } catch {
      say("flow-broken", texts.broken);
    }
  });
  return queue;
}

function addNode(type, after = null) {
  const taken = new Set([...(flow?.model.nodes ?? []).map((one) => one.name), END]);
  let name = type;
  for (let n = 2; taken.has(name); n += 1) name = `${type}_${n}`;
  const list = resolve(schema, schema, {}).properties.nodes.items;
  const config = resolve(schema, list, { type }).properties.config;
  const made = skeleton(schema, config);
  for (const [key, one] of Object.entries(resolve(schema, config, {}).properties ?? {})) {
    if (!one["x-prompt"] || !(key in made)) continue;
    made[key] = `prompts/${name}.md`;
    if (!prompts.list().some((each) => each.path === made[key])) prompts.set(made[key], "{user_query}\n");
  }
  const node = { name, type, ...(Object.keys(made).length ? { config: made } : {}) };
  edit({ kind: "addNode", node, after }).then(() => canvas.select({ node: name }));
}

/* Reads the newest text; of several that wait, the last alone. */
let isReading = false;
let isStale = false;
async function read() {
  isStale = true;
  if (isReading) return;
  isReading = true;
  while (isStale) {
    isStale = false;
    const found = await ask({ task: "read", text: code.text }).catch(() => null);
    const isShown = found && !found.isTooLarge;
    say("flow-broken", isShown ? "" : found ? texts.too_large : texts.broken);
    $("flow-canvas").classList.toggle("flow-stale", !isShown);
    if (isShown) {
      flow = { ...found, findings };
      show();
    }
  }
  isReading = false;
}

function show() {
  if (!flow) return;
  flow = { ...flow, findings };
  canvas?.show(flow);
  showForms();
}

const showForms = () => forms?.show({ flow, chosen, schema });

function say(id, sentence) {
  $(id).textContent = sentence;
  $(id).hidden = !sentence;
}

function showFindings(found) {
  findings = found;
  code.mark(found);
  $("flow-problems").replaceChildren(...found.map(problem));
  const errors = found.filter((one) => one.level === "error").length;
  $("flow-checked").textContent = found.length ? texts.found.replace("{n}", found.length) : texts.sound;
  $("flow-checked").className = `desk-label ${errors ? "desk-bad" : found.length ? "desk-warn" : "desk-good"}`;
  show();
}

function problem(one) {
  const item = document.createElement("li");
  const level = document.createElement("span");
  level.className = `desk-label ${one.level === "error" ? "desk-bad" : "desk-warn"}`;
  level.textContent = one.level === "error" ? texts.error : texts.warning;
  const way = document.createElement("button");
  way.type = "button";
  way.className = "desk-link";
  way.textContent = texts.place.replace("{line}", one.line).replace("{column}", one.column);
  way.addEventListener("click", () => {
    if (view === "canvas") look("code");
    code.go(one.line, one.column);
  });
  item.append(level, " ", way, " ", one.message);
  return item;
}

/* What is shown: both, the canvas or the YAML. */
let view = "both";
function look(next) {
  view = next;
  $("flow-editor").dataset.view = next;
  for (const button of document.querySelectorAll("[data-view]:not(section)")) button.ariaPressed = String(button.dataset.view === next);
}

const files = () => ({ yaml: code.text, prompts: prompts.list(), note: form.elements.note.value, seen: form.elements.seen?.value ?? "" });
const isSame = (one, other) => one.yaml === other.yaml && JSON.stringify(one.prompts) === JSON.stringify(other.prompts);

const drafts = new FlowDrafts(data.draft);
let served = null;
let draftTimer = 0;
function keepDraft() {
  clearTimeout(draftTimer);
  if (!served) return;
  const now = files();
  if (!data.is_unsaved && isSame(now, served)) {
    drafts.drop();
    say("flow-kept", "");
  } else say("flow-kept", drafts.keep(now) ? texts.kept : texts.not_kept);
}

function changed() {
  field.value = code.text;
  for (const [name, can] of [["undo", code.canUndo], ["redo", code.canRedo]]) document.querySelector(`[data-do=${name}]`).disabled = !can;
  read();
  check.later();
  clearTimeout(draftTimer);
  draftTimer = setTimeout(keepDraft, 300);
}

function offer() {
  const [one] = drafts.all().filter((each) => each.id !== drafts.id && !isSame(each, served));
  $("flow-draft").hidden = !one;
  if (!one) return;
  $("flow-draft-told").textContent = texts.draft.replace("{at}", new Date(one.at).toLocaleString(document.documentElement.lang));
  $("flow-draft-restore").onclick = () => {
    drafts.adopt(one.id);
    if (form.elements.seen && one.seen) form.elements.seen.value = one.seen;
    form.elements.note.value ||= one.note ?? "";
    prompts.replace(one.prompts);
    code.replace(one.yaml);
    offer();
  };
  $("flow-draft-drop").onclick = () => { drafts.drop(one.id); offer(); };
}

function startDrafts() {
  served = files();
  const sent = drafts.takeSent();
  if (data.is_unsaved) {
    // What was sent and not saved is on the page again.
    if (sent) drafts.adopt(sent);
    keepDraft();
  }
  for (const one of drafts.all()) if (isSame(one, served) && !data.is_unsaved) drafts.drop(one.id);
  offer();
  addEventListener("pagehide", keepDraft);
}

const check = new FlowCheck({
  address: data.check, token: form.elements.csrfmiddlewaretoken.value, texts, files: () => files(), onFound: showFindings, onState: (sentence) => say("flow-unchecked", sentence),
});
const prompts = new FlowPrompts($("flow-prompts"), () => changed());
const code = new FlowCode($("flow-code"), {
  text: field.value,
  texts,
  phrases: data.phrases,
  label: "flow.yaml",
  names: (isTarget) => [...(flow?.model.nodes ?? []).map((one) => one.name), ...(isTarget ? [END] : [])],
  paths: () => prompts.list().map((one) => one.path),
  onChange: () => changed(),
});

const DEEDS = { undo: () => code.undo(), redo: () => code.redo(), tidy: () => edit({ kind: "tidy" }) };

function listen() {
  for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", () => DEEDS[button.dataset.do]());
  for (const button of document.querySelectorAll("button[data-view]")) button.addEventListener("click", () => look(button.dataset.view));
  // The history is the text's, whichever side was changed.
  $("flow-board").addEventListener("keydown", (event) => {
    if (event.target.matches("input, textarea, select") || !(event.ctrlKey || event.metaKey)) return;
    const key = event.key.toLowerCase();
    if (key !== "z" && key !== "y") return;
    event.preventDefault();
    (key === "y" || event.shiftKey ? DEEDS.redo : DEEDS.undo)();
  });
  for (const button of document.querySelectorAll("[data-line]")) {
    button.disabled = false;
    button.addEventListener("click", () => { look(NARROW.matches ? "code" : "both"); code.go(Number(button.dataset.line), Number(button.dataset.column)); });
  }
  let isReady = false;
  form.addEventListener("submit", async (event) => {
    if (isReady) return;
    event.preventDefault();
    flushForms();
    // A form can be sent again when the event of the first time is over.
    await Promise.all([queue, new Promise((done) => setTimeout(done))]);
    keepDraft();
    drafts.sent();
    isReady = true;
    form.requestSubmit(event.submitter);
    isReady = false;
  });
}

function showTypes() {
  const list = resolve(schema, schema, {}).properties.nodes.items;
  const types = choices(resolve(schema, list, {}).properties.type);
  texts.types = Object.fromEntries(types.map((one) => [one.value, one.label || one.value]));
  const menu = $("flow-types");
  menu.replaceChildren(...types.map((one) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = one.label || one.value;
    button.dataset.type = one.value;
    const note = document.createElement("code");
    note.textContent = one.value;
    button.append(" ", note);
    button.addEventListener("click", () => {
      menu.parentElement.open = false;
      addNode(one.value, menu.dataset.after ?? chosen.nodes.at(0) ?? null);
      delete menu.dataset.after;
    });
    return button;
  }));
  menu.parentElement.addEventListener("toggle", () => { if (!menu.parentElement.open) delete menu.dataset.after; });
  menu.parentElement.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.parentElement.open = false;
    menu.previousElementSibling.focus();
  });
}

let flushForms = () => {};
async function start() {
  document.body.classList.add("flow-live");
  $("flow-editor").hidden = false;
  form.noValidate = true;
  look(NARROW.matches ? "canvas" : "both");
  listen();
  startDrafts();
  changed();
  const [answer, { mountCanvas }, formsModule] = await Promise.all([fetch(data.schema, { credentials: "same-origin" }), import("./flow_canvas.js"), import("./flow_forms.js")]);
  if (!answer.ok) return say("flow-unchecked", texts.unreachable);
  schema = await answer.json();
  code.schema = schema;
  showTypes();
  flushForms = formsModule.flushForms;
  canvas = mountCanvas($("flow-canvas"), { texts, onEdit: edit, onSelect: (found) => { chosen = found; showForms(); } });
  forms = formsModule.mountForms($("flow-form"), {
    texts, prompts, ask, onEdit: edit,
    onChoose: (node) => canvas.select({ node }),
    onChooseEdge: (edge) => canvas.select({ edge }),
    onAdd(after) {
      const menu = $("flow-types");
      menu.dataset.after = after;
      menu.parentElement.open = true;
      menu.querySelector("button").focus();
    },
  });
  show();
  document.body.dataset.flowReady = "1";
}

start();
