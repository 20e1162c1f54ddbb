// YAML that keeps its comments, three-way merges of lines, layered layouts.
export { graphlib, layout } from "@dagrejs/dagre";
export { diff3Merge } from "node-diff3";
export { isMap, isScalar, isSeq, LineCounter, parse, parseDocument, stringify } from "yaml";
