/* Flow canvas: nodes and edges in React Flow. It draws what the text says and returns edits; it keeps no flow. */

import {
  applyNodeChanges, Background, BaseEdge, Controls, createElement as h, createRoot, getBezierPath, Handle, MarkerType, memo, Position, ReactFlow, useCallback, useEffect, useMemo,
  useReactFlow, useRef, useState,
} from "../vendor/canvas.js";
import { BORDER_HEIGHT, BORDER_WIDTH, END, NODE_HEIGHT, NODE_WIDTH, START } from "./flow_text.js";

const MAX_LABEL = 34;
const ARROW = { type: MarkerType.ArrowClosed, width: 18, height: 18 };

const FlowNode = memo(function FlowNode({ data }) {
  return h("div", { className: `flow-node ${data.level}`, title: data.told },
    data.border === START ? null : h(Handle, { type: "target", position: Position.Top }),
    h("strong", null, data.label),
    data.kind ? h("span", null, data.kind) : null,
    data.count ? h("b", { className: "flow-node-count", "aria-hidden": true }, data.count) : null,
    data.border === END ? null : h(Handle, { type: "source", position: Position.Bottom }));
});
const NODE_TYPES = { flow: FlowNode };

const FlowEdge = memo(function FlowEdge({ sourceX, sourceY, targetX, targetY, sourcePosition, targetPosition, label, markerEnd, data }) {
  const { points, label: place } = data.bends ?? {};
  if (!points) {
    const [path, labelX, labelY] = getBezierPath({ sourceX, sourceY, targetX, targetY, sourcePosition, targetPosition });
    return h(BaseEdge, { path, labelX, labelY, label, markerEnd, labelBgPadding: [5, 2], labelBgBorderRadius: 4 });
  }
  const way = [{ x: sourceX, y: sourceY }, ...points, { x: targetX, y: targetY }];
  const curves = way.slice(1).map(({ x, y }, at) => {
    const middle = (way[at].y + y) / 2;
    return `C${way[at].x},${middle} ${x},${middle} ${x},${y}`;
  });
  const { x: labelX, y: labelY } = place ?? way[Math.floor(way.length / 2)];
  return h(BaseEdge, { path: `M${sourceX},${sourceY}${curves.join("")}`, labelX, labelY, label, markerEnd, labelBgPadding: [5, 2], labelBgBorderRadius: 4 });
});
const EDGE_TYPES = { flow: FlowEdge };

/* Mounts the canvas; returns `show(flow)`, where a flow is model, lines, places, bends and findings, and `select` by name
   or by the id of an edge. */
export function mountCanvas(root, options) {
  const handle = {};
  createRoot(root).render(h(Canvas, { ...options, handle }));
  return {
    show: (flow) => (handle.show ? handle.show(flow) : (handle.flow = flow)),
    select: (found) => handle.select?.(found),
  };
}

function Canvas({ texts, handle, onEdit, onSelect }) {
  const [flow, setFlow] = useState(handle.flow ?? null);
  const [nodes, setNodes] = useState([]);
  const [chosen, setChosen] = useState([]);
  const wanted = useRef(null);
  handle.show = setFlow;

  // What is being dragged stays under the pointer whatever the text says meanwhile.
  useEffect(() => {
    if (!flow) return;
    setNodes((before) => {
      const old = new Map(before.map((one) => [one.id, one]));
      return nodesOf(flow, texts).map((one) => {
        const was = old.get(one.id);
        const selected = wanted.current ? wanted.current.name === one.id : Boolean(was?.selected);
        if (!was) return { ...one, selected };
        const place = was.dragging || isSame(was.position, one.position) ? was.position : one.position;
        // An object that stays the same is not drawn again.
        if (place === was.position && isSame(was.data, one.data) && selected === Boolean(was.selected)) return was;
        return { ...was, data: one.data, position: place, selected, ariaLabel: one.ariaLabel };
      });
    });
  }, [flow, texts]);

  const edges = useKept(useMemo(() => (flow ? edgesOf(flow, chosen, texts) : []), [flow, chosen, texts]));
  const moves = useMoves(onEdit);
  const told = useCallback((found) => onSelect({ nodes: found.nodes.map((one) => one.id), edges: found.edges.map((one) => one.id) }), [onSelect]);

  handle.select = ({ node, edge, isQuiet }) => {
    wanted.current = node && { name: node, isQuiet };
    setChosen(edge ? [edge] : []);
    setNodes((all) => all.map((one) => (one.selected === (one.id === node) ? one : { ...one, selected: one.id === node })));
  };

  return h(ReactFlow, {
    nodes,
    edges,
    nodeTypes: NODE_TYPES,
    edgeTypes: EDGE_TYPES,
    onNodesChange(changes) {
      moves(changes);
      setNodes((all) => applyNodeChanges(changes.filter((one) => one.type !== "remove"), all));
    },
    onConnect: ({ source, target }) => onEdit({ kind: "addEdge", source, target }),
    onSelectionChange: told,
    async onBeforeDelete(gone) {
      const edit = removal(gone);
      if (edit) onEdit(edit);
      return false;
    },
    onEdgesChange(changes) {
      const told = new Map(changes.filter((one) => one.type === "select").map((one) => [one.id, one.selected]));
      if (told.size) setChosen((now) => edges.map((one) => one.id).filter((id) => told.get(id) ?? now.includes(id)));
    },
    isValidConnection: ({ source, target }) => source !== END && target !== START && !(source === START && target === END),
    ariaLabelConfig: texts.aria,
    deleteKeyCode: ["Delete", "Backspace"],
    colorMode: document.documentElement.classList.contains("dark") ? "dark" : "light",
    fitView: true,
    fitViewOptions: { maxZoom: 1, padding: 0.08 },
    minZoom: 0.1,
    nodesDraggable: Boolean(flow),
  },
  h(Background, { gap: 20 }),
  h(Controls, { showInteractive: false, orientation: "horizontal" }),
  h(Focus, { wanted, nodes }));
}

/* Brings a node that was added or chosen elsewhere into view. */
function Focus({ wanted, nodes }) {
  const { setCenter, getZoom, fitView } = useReactFlow();
  const shown = useRef(0);
  useEffect(() => {
    if (!shown.current && nodes.length) requestAnimationFrame(() => fitView({ maxZoom: 1, padding: 0.08 }));
    shown.current = nodes.length;
    const found = wanted.current && nodes.find((one) => one.id === wanted.current.name);
    if (!found) return;
    const { isQuiet } = wanted.current;
    wanted.current = null;
    if (!isQuiet) setCenter(found.position.x + NODE_WIDTH / 2, found.position.y + NODE_HEIGHT / 2, { zoom: Math.max(getZoom(), 0.7), duration: 200 });
  });
  return null;
}

/* Returns a listener that tells of nodes that were moved, once they stand still. */
function useMoves(onEdit) {
  const kept = useRef({ places: {}, timer: 0 });
  return (changes) => {
    const { current } = kept;
    for (const one of changes) {
      if (one.type === "position" && one.position && !one.dragging) current.places[one.id] = one.position;
    }
    if (!Object.keys(current.places).length) return;
    clearTimeout(current.timer);
    current.timer = setTimeout(() => {
      onEdit({ kind: "move", places: current.places });
      current.places = {};
    }, 150);
  };
}

function removal({ nodes, edges }) {
  const gone = nodes.map((one) => one.id).filter((one) => one !== START && one !== END);
  const lines = edges.filter((one) => one.data.index >= 0).map((one) => ({ index: one.data.index, target: one.target }));
  return gone.length || lines.length ? { kind: "remove", nodes: gone, edges: lines } : null;
}

function nodesOf({ model, places, findings }, texts) {
  const border = (id, label) => ({
    id, type: "flow", position: places[id], width: BORDER_WIDTH, height: BORDER_HEIGHT, deletable: false, className: "flow-border", data: { label, border: id, level: "", told: "" }, ariaLabel: label,
  });
  const own = model.nodes.map((one) => {
    const found = findings.filter((each) => each.line >= one.lines[0] && each.line <= one.lines[1]);
    const level = found.some((each) => each.level === "error") ? "error" : found.length ? "warning" : "";
    const kind = texts.types[one.type] ?? one.type;
    const told = found.map((each) => each.message).join("\n");
    return {
      id: one.name, type: "flow", position: places[one.name], width: NODE_WIDTH, height: NODE_HEIGHT,
      data: { label: one.name, kind, level, told, count: found.length || "" }, ariaLabel: [one.name, kind, told].filter(Boolean).join(": "),
    };
  });
  return [border(START, texts.start), ...own, border(END, texts.end)];
}

function edgesOf({ lines, bends }, chosen, texts) {
  return lines.map((one) => {
    const words = one.condition === "always" ? "" : texts.conditions[one.condition] ?? one.condition;
    return {
      id: one.id,
      type: "flow",
      source: one.source,
      target: one.target,
      label: words.length > MAX_LABEL ? `${words.slice(0, MAX_LABEL)}…` : words,
      className: one.index < 0 ? "flow-implied" : words ? "flow-choice" : "",
      deletable: one.index >= 0,
      markerEnd: ARROW,
      selected: chosen.includes(one.id),
      data: { index: one.index, bends: bends[one.id] },
      ariaLabel: `${one.source} → ${one.target}${words ? `: ${words}` : ""}`,
    };
  });
}

/* Returns the edges with those of before in place of equal ones, so that they are not drawn again. */
function useKept(edges) {
  const before = useRef(new Map());
  return useMemo(() => {
    const kept = edges.map((one) => (isSame(before.current.get(one.id), one) ? before.current.get(one.id) : one));
    before.current = new Map(kept.map((one) => [one.id, one]));
    return kept;
  }, [edges]);
}

const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);
