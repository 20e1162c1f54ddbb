/* Flow text: reads a flow's YAML for the canvas, writes the canvas's edits into it. Comments, order and
   the writer's layout of lines stay. No DOM: this runs in a worker. */

import { diff3Merge, graphlib, isMap, isScalar, isSeq, layout, LineCounter, parse, parseDocument, stringify } from "../vendor/flow_text.js";

export const START = "START";
export const END = "END";
// As the server reads it: "yes" is no text in YAML 1.1.
const READ = { version: "1.1" };

export const NODE_WIDTH = 208;
export const NODE_HEIGHT = 58;
export const BORDER_WIDTH = 84;
export const BORDER_HEIGHT = 34;

// What the language allows; more would be drawn for minutes.
const MAX_NODES = 500;
const MAX_EDGES = 5000;

/* Returns what the canvas shows of a text, null where it is no YAML of a mapping, `isTooLarge` alone where it holds
   more than is drawn. */
export function readFlow(text) {
  const counter = new LineCounter();
  const doc = parseDocument(text, { ...READ, lineCounter: counter });
  if (doc.errors.length || !isMap(doc.contents)) return null;
  const data = doc.toJS();
  const lines = (key) => {
    const items = doc.get(key)?.items ?? [];
    return items.map((one) => (one?.range ? [counter.linePos(one.range[0]).line, counter.linePos(one.range[1]).line] : [1, 1]));
  };
  const sizes = [listed(data.nodes).length, listed(data.edges).length];
  if (sizes[0] > MAX_NODES || sizes[1] > MAX_EDGES) return { isTooLarge: true };
  const places = { nodes: lines("nodes"), edges: lines("edges") };
  const nodes = listed(data.nodes)
    .map((one, index) => ({ ...one, index, name: String(one?.name ?? ""), type: String(one?.type ?? ""), lines: places.nodes[index] }))
    .filter((one, at, all) => one.name && all.findIndex((other) => other.name === one.name) === at);
  const edges = listed(data.edges).map((one, index) => ({ index, from: String(one?.from ?? ""), targets: listed(one?.to, true).map(String), condition: String(one?.condition ?? "always"), lines: places.edges[index] }));
  return { nodes, edges, entry: String(data.entry_node ?? ""), data };
}

function listed(value, isScalarToo = false) {
  if (Array.isArray(value)) return value.filter((one) => one !== null && one !== undefined);
  return isScalarToo && value !== null && value !== undefined ? [value] : [];
}

/* Returns every line of the canvas: those of the file, from START, and to END of nodes that lead nowhere. */
export function linesOf(model) {
  const known = new Set([...model.nodes.map((one) => one.name), END]);
  const found = [];
  if (known.has(model.entry)) found.push({ source: START, target: model.entry, index: -1, condition: "always" });
  for (const edge of model.edges) {
    for (const target of edge.targets) {
      if (known.has(edge.from) && known.has(target)) found.push({ source: edge.from, target, index: edge.index, condition: edge.condition });
    }
  }
  const leaving = new Set(model.edges.map((one) => one.from));
  for (const node of model.nodes) if (!leaving.has(node.name)) found.push({ source: node.name, target: END, index: -1, condition: "always" });
  const times = new Map();
  return found.map((one) => {
    const pair = `${one.source} → ${one.target}`;
    times.set(pair, (times.get(pair) ?? 0) + 1);
    return { ...one, id: `${pair} ${times.get(pair)}` };
  });
}

/* Returns the upper left corner of each node, as people moved it, else by layers from top to bottom; and where edges bend. */
export function placeNodes(model) {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 36, ranksep: 54, marginx: 0, marginy: 0 });
  for (const name of [START, END]) graph.setNode(name, { width: BORDER_WIDTH, height: BORDER_HEIGHT });
  for (const node of model.nodes) graph.setNode(node.name, { width: NODE_WIDTH, height: NODE_HEIGHT });
  for (const line of linesOf(model)) {
    const width = line.condition === "always" ? 0 : Math.min(line.condition.length, 34) * 6.5;
    graph.setEdge(line.source, line.target, { width, height: width ? 18 : 0, labelpos: "c" }, line.id);
  }
  layout(graph);
  const places = {};
  for (const name of graph.nodes()) {
    const { x, y, width, height } = graph.node(name);
    places[name] = movedPlace(model, name) ?? { x: Math.round(x - width / 2), y: Math.round(y - height / 2) };
  }
  const bends = {};
  for (const edge of graph.edges()) {
    const { points, x, y } = graph.edge(edge);
    // An edge goes around what lies between its ends, as long as both stand where the layout put them.
    if (movedPlace(model, edge.v) || movedPlace(model, edge.w)) continue;
    bends[edge.name] = { points: points.slice(1, -1), label: Number.isFinite(x) ? { x, y } : null };
  }
  return { places, bends };
}

function movedPlace(model, name) {
  const place = model.data.layout?.[name];
  const [x, y] = Array.isArray(place) ? place.map(Number) : [];
  return Number.isFinite(x) && Number.isFinite(y) ? { x, y } : null;
}

/* Returns the text after an edit of the canvas; raises where the text is no YAML.

   The library writes the whole file in its own layout, so what it changed by that alone is taken back: a merge
   of the text as it was written, the library's writing of it before, and of it after the edit. */
export function applyEdit(text, edit) {
  const doc = parseDocument(text, READ);
  if (doc.errors.length) throw doc.errors[0];
  const style = {
    lineWidth: 0,
    flowCollectionPadding: /\{ \S/.test(text),
    indentSeq: !/^\w+:[ \t]*\n(?:[ \t]*(?:#.*)?\n)*- /m.test(text),
  };
  const before = doc.toString(style);
  EDITS[edit.kind](doc, edit);
  const after = doc.toString(style);
  if (before === text) return after;
  const lines = [text, before, after].map((one) => one.split("\n"));
  const merged = diff3Merge(...lines, { excludeFalseConflicts: true }).flatMap((part) => part.ok ?? settle(part.conflict)).join("\n");
  return isSame(merged, after) ? merged : after;
}

/* Lines that the edit left as they were stay as they were written, also beside one that it changed. */
function settle({ a: written, o: before, b: after }) {
  if (written.length !== before.length) return after;
  let next = 0;
  return after.map((line) => {
    const at = before.indexOf(line, next);
    if (at < 0) return line;
    next = at + 1;
    return written[at];
  });
}

function isSame(one, other) {
  const [first, second] = [one, other].map((text) => parseDocument(text, READ));
  return !first.errors.length && JSON.stringify(first.toJS()) === JSON.stringify(second.toJS());
}

const EDITS = {
  // Sets what stands at a path, within a node where one is named; undefined takes it away.
  set(doc, { node, path: within, value }) {
    const at = node === undefined ? -1 : sequence(doc, "nodes").items.findIndex((one) => name(one, "name") === node);
    if (node !== undefined && at < 0) return;
    const path = node === undefined ? within : ["nodes", at, ...within];
    for (let depth = 1; depth < path.length; depth += 1) {
      const here = doc.getIn(path.slice(0, depth), true);
      if (isScalar(here) && here.value === null) doc.deleteIn(path.slice(0, depth));
    }
    const old = doc.getIn(path, true);
    if (value === undefined) doc.deleteIn(path);
    else if (isScalar(old) && (value === null || typeof value !== "object")) setScalar(old, value);
    else doc.setIn(path, doc.createNode(value, { flow: Boolean(old?.flow) }));
  },

  // Adds a node, behind another one where that is said: between it and what it always leads to.
  addNode(doc, { node, after }) {
    const nodes = sequence(doc, "nodes");
    const at = nodes.items.findIndex((one) => name(one, "name") === after);
    const place = at < 0 ? nodes.items.length : at + 1;
    nodes.items.splice(place, 0, doc.createNode(node, { flow: Boolean(nodes.items.at(place - 1)?.flow) }));
    if (!doc.get("entry_node")) doc.set("entry_node", node.name);
    if (!after) return;
    if (after === START) {
      const first = doc.get("entry_node");
      doc.set("entry_node", node.name);
      if (first && first !== node.name) addEdge(doc, node.name, String(first));
      return;
    }
    const leaving = sequence(doc, "edges").items.filter((one) => name(one, "from") === after && name(one, "condition") !== "failure");
    const only = leaving.length === 1 ? leaving[0] : null;
    const target = only?.get("to", true);
    if (only && isScalar(target) && (only.get("condition") ?? "always") === "always") {
      const next = String(target.value);
      setScalar(target, node.name);
      addEdge(doc, node.name, next);
    } else addEdge(doc, after, node.name);
  },

  addEdge(doc, { source, target, condition }) {
    if (source === START) doc.set("entry_node", target);
    else addEdge(doc, source, target, condition);
  },

  // Changes where an edge leads, or when. An edge with several targets has one condition.
  setEdge(doc, { index, target, value }) {
    const edge = doc.getIn(["edges", index]);
    if (value.to !== undefined) {
      const to = edge.get("to", true);
      if (isSeq(to)) setScalar(to.items.find((one) => String(one.value) === target), value.to);
      else edge.set("to", value.to);
    }
    if (value.from !== undefined) edge.set("from", value.from);
    if (value.condition === "always") edge.delete("condition");
    else if (value.condition !== undefined) EDITS.set(doc, { path: ["edges", index, "condition"], value: value.condition });
  },

  // Takes nodes away with what leads to them and from them, and edges.
  remove(doc, { nodes = [], edges = [] }) {
    const gone = new Set(nodes);
    const cut = (edge, index) => {
      const to = edge.get("to", true);
      const isGone = (target) => gone.has(target) || edges.some((one) => one.index === index && one.target === target);
      if (gone.has(name(edge, "from"))) return true;
      if (!isSeq(to)) return isGone(String(to?.value));
      to.items = to.items.filter((one) => !isGone(String(one.value)));
      return !to.items.length;
    };
    const list = sequence(doc, "edges");
    list.items = list.items.filter((edge, index) => !isMap(edge) || !cut(edge, index));
    const all = sequence(doc, "nodes");
    all.items = all.items.filter((one) => !gone.has(name(one, "name")));
    if (gone.has(String(doc.get("entry_node")))) doc.set("entry_node", all.items.length ? name(all.items[0], "name") : "");
    for (const one of gone) forget(doc, one);
  },

  rename(doc, { from, to }) {
    const rename = (scalar) => { if (isScalar(scalar) && String(scalar.value) === from) setScalar(scalar, to); };
    for (const one of sequence(doc, "nodes").items) if (isMap(one)) rename(one.get("name", true));
    for (const one of sequence(doc, "edges").items) {
      if (!isMap(one)) continue;
      const target = one.get("to", true);
      for (const scalar of [one.get("from", true), ...(isSeq(target) ? target.items : [target])]) rename(scalar);
    }
    rename(doc.get("entry_node", true));
    for (const pair of doc.get("layout")?.items ?? []) rename(pair.key);
  },

  move(doc, { places }) {
    if (!isMap(doc.get("layout"))) {
      doc.delete("layout");
      const pair = doc.createPair("layout", {});
      pair.key.spaceBefore = true;
      doc.contents.add(pair);
    }
    for (const [node, { x, y }] of Object.entries(places)) doc.setIn(["layout", node], doc.createNode([Math.round(x), Math.round(y)], { flow: true }));
  },

  tidy(doc) { doc.delete("layout"); },
};

function sequence(doc, key) {
  if (!isSeq(doc.get(key))) doc.set(key, doc.createNode([]));
  const found = doc.get(key);
  // What was written as [] is to grow by lines.
  if (!found.items.length) found.flow = false;
  return found;
}

function name(item, key) {
  return isMap(item) ? String(item.get(key) ?? "") : "";
}

function setScalar(scalar, value) {
  scalar.value = value;
  // A number is written as it was read, unless told.
  delete scalar.source;
  delete scalar.format;
  if (typeof value === "string" && scalar.type === "PLAIN" && value.includes("\n")) scalar.type = "BLOCK_LITERAL";
}

function addEdge(doc, source, target, condition) {
  const edges = sequence(doc, "edges");
  const last = edges.items.findLastIndex((one) => name(one, "from") === source);
  const place = last < 0 ? edges.items.length : last + 1;
  const edge = { from: source, to: target, ...(condition && condition !== "always" ? { condition } : {}) };
  edges.items.splice(place, 0, doc.createNode(edge, { flow: Boolean(edges.items.at(place - 1)?.flow) }));
}

function forget(doc, node) {
  const places = doc.get("layout");
  if (!isMap(places)) return;
  places.delete(node);
  if (!places.items.length) doc.delete("layout");
}

export const parseValue = (text) => parse(text, READ);
export const writeValue = (value) => (value === undefined ? "" : stringify(value, { ...READ, lineWidth: 0, flowCollectionPadding: false }).trimEnd());
