/* Flow forms: what is chosen on the canvas, as fields made from the schema. Each change is an edit of the text. */

import { createElement as h, createRoot, Fragment, useEffect, useRef, useState } from "../vendor/canvas.js";
import { choices, kindOf, resolve, skeleton, typeOf, variants } from "./flow_schema.js";
import { END, START } from "./flow_text.js";

const WAIT_MS = 400;
const waiting = new Set();

/* Commits what was typed and not committed yet. */
export function flushForms() {
  for (const commit of [...waiting]) commit();
}

/* Mounts the forms; returns `show(state)` with flow, chosen (nodes, edges) and schema. */
export function mountForms(root, options) {
  const panel = createRoot(root);
  return { show: (state) => panel.render(h(Panel, { ...options, ...state })) };
}

function Panel(props) {
  const { flow, chosen, schema, texts } = props;
  if (!flow || !schema) return null;
  const [node] = chosen.nodes;
  const found = flow.model.nodes.find((one) => one.name === node);
  const line = flow.lines.find((one) => one.id === chosen.edges[0]);
  const count = chosen.nodes.length + chosen.edges.length;
  if (count > 1) return h(Several, props);
  if (found) return h(NodeForm, { key: `node ${found.name}`, ...props, node: found });
  if (line && line.index >= 0) return h(EdgeForm, { key: line.id, ...props, line });
  if (node === START) return h("section", null, h("h3", null, texts.start), h(EntryField, props));
  if (node === END || line) return h("p", { className: "desk-note" }, node === END ? texts.end_note : texts.implied_note);
  return h(FlowForm, props);
}

function Several({ chosen, flow, texts, onEdit }) {
  const edges = flow.lines.filter((one) => chosen.edges.includes(one.id) && one.index >= 0);
  const nodes = chosen.nodes.filter((one) => one !== START && one !== END);
  return h("section", null,
    h("h3", null, texts.chosen.replace("{n}", chosen.nodes.length + chosen.edges.length)),
    h(Button, { onClick: () => onEdit({ kind: "remove", nodes, edges: edges.map(({ index, target }) => ({ index, target })) }) }, texts.remove));
}

function FlowForm(props) {
  const { flow, schema, texts } = props;
  const shape = resolve(schema, schema, flow.model.data);
  const { nodes, edges, entry_node: entry, layout, ...properties } = shape.properties;
  const form = { ...props, set: (path, value) => props.onEdit({ kind: "set", path, value }) };
  return h("section", null, h("h3", null, texts.flow), h(EntryField, props),
    h(ObjectField, { form, shape: { ...shape, properties }, value: flow.model.data, path: [] }));
}

function EntryField({ flow, texts, onEdit }) {
  return h(Choice, { label: "entry_node", help: texts.entry_help, value: flow.model.entry, options: flow.model.nodes.map((one) => ({ value: one.name })), isRequired: true, onChange: (value) => onEdit({ kind: "set", path: ["entry_node"], value }) });
}

function NodeForm(props) {
  const { flow, schema, texts, node, onEdit, onChoose } = props;
  const list = resolve(schema, schema, {}).properties.nodes;
  const shape = resolve(schema, list.items, node);
  const form = { ...props, set: (path, value) => onEdit({ kind: "set", node: node.name, path, value }) };
  const config = resolve(schema, shape.properties.config, node.config);
  const rename = (to) => { if (to && to !== node.name && !flow.model.nodes.some((one) => one.name === to)) onEdit({ kind: "rename", from: node.name, to }); };
  const retype = (type) => {
    const own = resolve(schema, list.items, { type }).properties.config;
    onEdit({ kind: "set", node: node.name, path: ["type"], value: type });
    onEdit({ kind: "set", node: node.name, path: ["config"], value: skeleton(schema, own) });
  };
  return h("section", null,
    h("h3", null, node.name),
    h(TextInput, { label: "name", value: node.name, isLate: true, onChange: rename }),
    h(Choice, { label: "type", value: node.type, options: choices(shape.properties.type), isRequired: true, onChange: retype }),
    h(ObjectField, { form, shape: config, value: node.config ?? {}, path: ["config"] }),
    h(Leads, props),
    h("p", { className: "desk-ways" },
      h(Button, { onClick: () => props.onAdd(node.name) }, texts.add_after),
      h(Button, { onClick: () => { onEdit({ kind: "remove", nodes: [node.name] }); onChoose(null); } }, texts.remove)));
}

/* The edges of a node, and a way to join it by keyboard alone. */
function Leads({ flow, node, texts, onEdit, onChooseEdge }) {
  const leaving = flow.lines.filter((one) => one.source === node.name && one.index >= 0);
  const targets = [...flow.model.nodes.map((one) => one.name), END].filter((one) => !leaving.some((line) => line.target === one && line.condition === "always"));
  return h("fieldset", null, h("legend", null, texts.leads),
    leaving.map((one) => h("p", { key: one.id, className: "flow-lead" },
      h(Button, { isLink: true, onClick: () => onChooseEdge(one.id) }, `→ ${one.target}`),
      h("code", null, one.condition),
      h(Button, { label: `${texts.remove}: ${one.target}`, onClick: () => onEdit({ kind: "remove", edges: [{ index: one.index, target: one.target }] }) }, "×"))),
    h(Choice, { label: texts.join, value: "", options: targets.map((value) => ({ value, label: value === END ? texts.end : "" })), onChange: (target) => target && onEdit({ kind: "addEdge", source: node.name, target }) }));
}

function EdgeForm({ flow, schema, line, texts, onEdit, onChooseEdge }) {
  const names = flow.model.nodes.map((one) => ({ value: one.name }));
  const set = (value) => onEdit({ kind: "setEdge", index: line.index, target: line.target, value });
  const shape = resolve(schema, resolve(schema, schema, {}).properties.edges.items, {}).properties.condition;
  const kind = shape.examples.includes(line.condition) ? line.condition : "expression";
  const [shown, setShown] = useState(kind);
  useEffect(() => setShown(kind), [kind]);
  return h("section", null,
    h("h3", null, `${line.source} → ${line.target}`),
    h(Choice, { label: "from", value: line.source, options: names, isRequired: true, onChange: (from) => set({ from }) }),
    h(Choice, { label: "to", value: line.target, options: [...names, { value: END, label: texts.end }], isRequired: true, onChange: (to) => set({ to }) }),
    h(Choice, {
      label: "condition", value: shown, isRequired: true, options: [...shape.examples, "expression"].map((value) => ({ value, text: texts.conditions[value] ?? value })),
      onChange: (value) => { setShown(value); if (value !== "expression") set({ condition: value }); },
    }),
    shown === "expression" ? h(TextInput, { label: texts.conditions.expression, help: texts.expression_help, value: kind === "expression" ? line.condition : "", isCode: true, onChange: (condition) => condition.trim() && set({ condition: condition.trim() }) }) : null,
    h("p", { className: "desk-ways" }, h(Button, { onClick: () => { onEdit({ kind: "remove", edges: [{ index: line.index, target: line.target }] }); onChooseEdge(null); } }, texts.remove)));
}

/* The properties of an object: what is needed or set, and the rest below a fold. */
function ObjectField({ form, raw, shape, value, path }) {
  const all = Object.entries(shape.properties ?? {});
  if (!all.length && shape.additionalProperties !== false) return h(YamlInput, { form, label: String(path.at(-1)), value, onChange: (next) => form.set(path, next) });
  const isShown = ([name]) => shape.required?.includes(name) || value?.[name] !== undefined;
  const field = ([name, one]) => h(Field, { key: name, form, schema: one, name, value: value?.[name], path: [...path, name], isRequired: Boolean(shape.required?.includes(name)), onKind: raw && shape.allOf && name === "type" ? (type) => form.set(path, retyped(form.schema, raw, value, type)) : null });
  const rest = all.filter((one) => !isShown(one));
  return h(Fragment, null, all.filter(isShown).map(field),
    rest.length ? h("details", { className: "flow-more" }, h("summary", null, form.texts.more.replace("{n}", rest.length)), rest.map(field)) : null);
}

/* Returns a value with another type: what only the old one knows is left out, what the new one needs is there. */
function retyped(root, raw, value, type) {
  const [old, next] = [value, { type }].map((one) => resolve(root, raw, one).properties);
  const kept = Object.entries(value ?? {}).filter(([name]) => !(name in old) || JSON.stringify(next[name]) === JSON.stringify(old[name]));
  return skeleton(root, raw, { ...Object.fromEntries(kept), type });
}

function Field({ form, schema, name, value, path, isRequired, onKind }) {
  const ways = variants(form.schema, schema);
  const shape = resolve(form.schema, schema, value);
  const kind = typeOf(shape);
  const told = { label: name, help: shape.description, isRequired, hint: hintOf(shape.default ?? schema.default, form.texts) };
  const set = onKind ?? ((next) => form.set(path, next));
  if (shape["x-prompt"]) return h(PromptField, { ...told, form, value, onChange: set });
  const found = choices(shape);
  if (found.length) return h(Choice, { ...told, value, options: found, onChange: set });
  if (kind === "array") return h(ListField, { ...told, form, shape, value, path });
  if (kind === "object" && shape.properties) return h(Group, { ...told, form, schema, shape, value, path });
  if (kind === "object" || kind === undefined || (ways.length > 1 && kindOf(value) === "object")) return h(YamlInput, { ...told, form, value, onChange: set });
  if (kind === "number" || kind === "integer") return h(TextInput, { ...told, value, isNumber: true, shape, onChange: (text) => set(text === "" ? undefined : Number(text)) });
  return h(TextInput, { ...told, value, examples: shape.examples, isLine: Boolean(shape.pattern), onChange: (text) => set(text === "" && !isRequired ? undefined : text) });
}

function Group({ form, label, schema, shape, value, path, isRequired }) {
  if (value === undefined || value === null) return h("p", { className: "flow-field" }, h(Button, { onClick: () => form.set(path, skeleton(form.schema, schema)) }, `+ ${label}`));
  return h("fieldset", null, h("legend", null, h("code", null, label)),
    h(ObjectField, { form, raw: schema, shape, value, path }),
    isRequired ? null : h(Button, { label: `${form.texts.remove}: ${label}`, onClick: () => form.set(path, undefined) }, form.texts.remove));
}

function ListField({ form, label, shape, value, path, isRequired }) {
  const items = Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];
  const put = (next) => form.set(path, next.length || isRequired ? next : undefined);
  const ways = variants(form.schema, shape.items);
  const add = (way) => put([...items, skeleton(form.schema, way)]);
  return h("fieldset", null, h("legend", null, h("code", null, label)),
    items.map((one, at) => h("div", { key: at, className: "flow-item" },
      h(Field, { form, schema: shape.items, name: String(at + 1), value: one, path: Array.isArray(value) ? [...path, at] : path, isRequired: true }),
      h(Button, { label: `${form.texts.remove}: ${label} ${at + 1}`, onClick: () => put(items.filter((_, other) => other !== at)) }, "×"))),
    h("p", { className: "desk-ways" }, ways.map((way, at) => h(Button, { key: at, onClick: () => add(way), label: `${form.texts.add}: ${label}` }, `+ ${ways.length > 1 ? wayName(form, way) : form.texts.add}`))));
}

function wayName(form, way) {
  const shape = resolve(form.schema, way);
  return typeOf(shape) === "object" ? `${shape.required?.[0] ?? ""}: …` : form.texts.text;
}

/* A prompt by its path, chosen or written, and its text. A file that no other node uses is renamed with it. */
function PromptField({ form, label, value, onChange }) {
  const { prompts, texts, flow } = form;
  const all = prompts.list();
  const text = all.find((one) => one.path === value)?.text;
  const move = (to) => {
    const isShared = flow.model.nodes.filter((one) => JSON.stringify(one).includes(JSON.stringify(value))).length > 1;
    const isThere = all.some((one) => one.path === to);
    if (!isThere && text !== undefined && !isShared) prompts.rename(value, to);
    else if (!isThere) prompts.set(to, text ?? "");
    onChange(to);
  };
  return h(Fragment, null,
    h(TextInput, { label, value, examples: all.map((one) => one.path), isLate: true, isRequired: true, onChange: (to) => to.trim() && move(to.trim()) }),
    h(TextInput, { label: texts.prompt_text, value: text ?? "", rows: 4, onChange: (next) => value && prompts.set(value, next) }));
}

function YamlInput({ form, label, value, onChange, help }) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  useEffect(() => { form.ask({ task: "write", value }).then(setText); }, [JSON.stringify(value)]);
  const commit = async (next) => {
    try {
      const read = await form.ask({ task: "parse", text: next });
      setProblem("");
      onChange(read ?? undefined);
    } catch (error) { setProblem(String(error.message)); }
  };
  return h(Fragment, null, h(TextInput, { label, value: text, rows: 3, isCode: true, isLate: true, help: help || form.texts.as_yaml, onChange: commit }), problem ? h("p", { className: "desk-error", role: "alert" }, problem) : null);
}

function TextInput({ label, value, help, hint, examples, shape = {}, rows, isRequired, isLine, isNumber, isCode, isLate, onChange }) {
  const given = value === undefined || value === null ? "" : String(value);
  const [text, setText] = useTyped(given, onChange, isLate);
  const list = examples?.length ? `flow-list-${label}` : undefined;
  const common = { "aria-label": label, className: isCode ? "flow-mono" : "", value: text, placeholder: hint, "aria-required": isRequired || undefined, onChange: (event) => setText(event.target.value), onBlur: flushForms, list };
  const lines = rows ?? Math.min(Math.max(text.split("\n").length, text.length > 60 ? 3 : 1), 8);
  const isArea = !isLine && !isNumber && !list && (rows || lines > 1 || !isLate);
  const input = isArea
    ? h("textarea", { ...common, rows: lines, spellCheck: false })
    : h("input", { ...common, type: isNumber ? "number" : "text", step: shape.type === "number" ? "any" : undefined, min: shape.minimum, max: shape.maximum, autoComplete: "off", spellCheck: false, onKeyDown: stopSubmit });
  return h("label", { className: "flow-field" }, h("span", null, label), input,
    list ? h("datalist", { id: list }, examples.map((one) => h("option", { key: one, value: one }))) : null,
    help ? h("small", { className: "desk-note" }, help) : null);
}

// The forms stand within the page's own form, which Enter would send.
function stopSubmit(event) {
  if (event.key !== "Enter") return;
  event.preventDefault();
  flushForms();
}

/* What is typed, committed a moment after the last key, or when the field is left where `isLate`. */
function useTyped(given, onChange, isLate) {
  const [text, setText] = useState(given);
  const kept = useRef({ isDirty: false });
  const { current } = kept;
  current.onChange = onChange;
  current.text = text;
  current.commit ??= () => {
    clearTimeout(current.timer);
    waiting.delete(current.commit);
    if (!current.isDirty) return;
    current.isDirty = false;
    current.onChange(current.text);
  };
  useEffect(() => { if (!current.isDirty) setText(given); }, [given]);
  useEffect(() => () => current.commit(), []);
  const type = (next) => {
    current.isDirty = true;
    current.text = next;
    setText(next);
    waiting.add(current.commit);
    clearTimeout(current.timer);
    if (!isLate) current.timer = setTimeout(current.commit, WAIT_MS);
  };
  return [text, type];
}

function Choice({ label, help, hint, value, options, isRequired, onChange }) {
  const at = options.findIndex((one) => one.value === value);
  const isOdd = value !== undefined && value !== null && value !== "" && at < 0;
  return h("label", { className: "flow-field" }, h("span", null, label),
    h("select", { "aria-label": label, value: isOdd ? "odd" : String(at), onChange: (event) => onChange(options[Number(event.target.value)]?.value) },
      isRequired && at >= 0 ? null : h("option", { value: "-1" }, hint ? `(${hint})` : "–"),
      isOdd ? h("option", { value: "odd" }, String(value)) : null,
      options.map((one, number) => h("option", { key: number, value: String(number) }, one.text ?? (one.label ? `${one.value} – ${one.label}` : String(one.value))))),
    help ? h("small", { className: "desk-note" }, help) : null);
}

function Button({ children, label, isLink, onClick }) {
  return h("button", { type: "button", className: isLink ? "desk-link" : "desk-button", "aria-label": label, onClick }, children);
}

function hintOf(value, texts) {
  if (value === undefined || value === null || value === "" || typeof value === "object") return "";
  return texts.default.replace("{value}", String(value));
}
