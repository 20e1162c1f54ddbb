// CodeMirror as the flow editor uses it.
export { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, startCompletion } from "@codemirror/autocomplete";
export { defaultKeymap, history, historyKeymap, indentWithTab, isolateHistory, redo, redoDepth, temporarilySetTabFocusMode, undo, undoDepth } from "@codemirror/commands";
export { yaml } from "@codemirror/lang-yaml";
export { bracketMatching, HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
export { forceLinting, lintGutter, lintKeymap, linter, setDiagnostics } from "@codemirror/lint";
export { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
export { Annotation, EditorSelection, EditorState, Transaction } from "@codemirror/state";
export { drawSelection, EditorView, highlightActiveLine, hoverTooltip, keymap, lineNumbers, tooltips } from "@codemirror/view";
export { tags } from "@lezer/highlight";
