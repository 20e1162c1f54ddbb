// React Flow as the flow editor uses it, with the React that draws it.
export { applyNodeChanges, Background, BaseEdge, Controls, getBezierPath, Handle, MarkerType, Position, ReactFlow, useReactFlow } from "@xyflow/react";
export { createElement, Fragment, memo, useCallback, useEffect, useMemo, useRef, useState } from "react";
export { createRoot } from "react-dom/client";
