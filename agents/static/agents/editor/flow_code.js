/* Flow code: the YAML in CodeMirror, completed by the schema, with the server's findings in place. Its history is
   the history of the canvas too. */

import {
  Annotation, autocompletion, bracketMatching, closeBrackets, closeBracketsKeymap, completionKeymap, defaultKeymap, drawSelection,
  EditorSelection, EditorState, EditorView, highlightActiveLine, HighlightStyle, history, historyKeymap, indentUnit, indentWithTab,
  isolateHistory, keymap, lineNumbers, lintGutter, lintKeymap, redo, redoDepth, search, searchKeymap, setDiagnostics, syntaxHighlighting,
  tags, tooltips, undo, undoDepth, yaml,
} from "../vendor/codemirror.js";
import { pathAt } from "./flow_path.js";
import { choices, resolve, schemaAt, typeOf, variants } from "./flow_schema.js";

const fromCanvas = Annotation.define();
// By variables of the page's own stylesheet, so that colours follow the theme.
const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--code-key)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-text)" },
  { tag: [tags.number, tags.bool, tags.keyword, tags.atom], color: "var(--code-value)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--code-comment)" },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: "var(--code-sign)" },
]);
const DRESS = EditorView.theme({
  "&": { height: "100%", fontSize: "13px", color: "inherit", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "2px solid var(--color-primary-600)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: 'ui-monospace, "Noto Sans Mono CJK SC", monospace', lineHeight: "1.55" },
  ".cm-content": { caretColor: "currentColor" },
  ".cm-cursor": { borderLeftColor: "currentColor" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--code-comment)", border: "none" },
  ".cm-activeLine": { backgroundColor: "var(--code-line)" },
  ".cm-activeLineGutter": { backgroundColor: "transparent" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { background: "var(--code-selection) !important" },
  ".cm-tooltip": { backgroundColor: "var(--code-box)", color: "inherit", border: "1px solid var(--code-border)", borderRadius: "6px", maxWidth: "28rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--color-primary-600)", color: "#fff" },
  ".cm-completionDetail": { color: "inherit", opacity: ".75" },
  ".cm-panels": { backgroundColor: "var(--code-box)", color: "inherit" },
  ".cm-textfield, .cm-button": { background: "transparent", color: "inherit", border: "1px solid var(--code-border)", borderRadius: "4px" },
});

/* Typing over a selection is done by CodeMirror itself: the browser would keep the look of what it replaces as an
   inline style, which the page's policy refuses. */
const typeOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { main } = view.state.selection;
    if (event.inputType !== "insertText" || !event.data || main.empty || view.composing) return false;
    event.preventDefault();
    const make = () => view.state.update(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    const isHandled = view.state.facet(EditorView.inputHandler).some((one) => one(view, main.from, main.to, event.data, make));
    if (!isHandled) view.dispatch(make());
    return true;
  },
});

export class FlowCode {
  /* `host` gets a shadow root: there CodeMirror's styles are constructed sheets, which need no exception in the
     page's content security policy. */
  constructor(host, { text, texts, phrases, label, names, paths, onChange }) {
    this.texts = texts;
    this.names = names;
    this.paths = paths;
    const root = host.attachShadow({ mode: "open" });
    const inner = document.createElement("div");
    inner.className = "code";
    root.append(inner);
    const size = new CSSStyleSheet();
    size.replaceSync(":host { display: block; } .code { height: 100%; }");
    root.adoptedStyleSheets = [size];
    this.view = new EditorView({
      parent: inner,
      root,
      state: EditorState.create({ doc: text, extensions: [this.setup(label, phrases, inner), EditorView.updateListener.of((update) => update.docChanged && onChange(this.text))] }),
    });
  }

  setup(label, phrases, inner) {
    return [
      lineNumbers(), lintGutter(), history(), drawSelection(), highlightActiveLine(), bracketMatching(), closeBrackets(), search({ top: true }),
      typeOver, yaml(), syntaxHighlighting(COLOURS), indentUnit.of("  "), DRESS, tooltips({ parent: inner }), EditorState.phrases.of(phrases),
      EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false" }),
      autocompletion({ override: [(context) => this.complete(context)] }),
      keymap.of([...closeBracketsKeymap, ...completionKeymap, ...lintKeymap, ...searchKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
    ];
  }

  get text() { return this.view.state.doc.toString(); }
  get canUndo() { return undoDepth(this.view.state) > 0; }
  get canRedo() { return redoDepth(this.view.state) > 0; }
  undo() { undo(this.view); }
  redo() { redo(this.view); }

  /* Puts another text in place, as one step of the history; only what differs is replaced, so that the cursor stays.
     `isShown`: it is scrolled to. */
  replace(text, isShown = true) {
    const old = this.text;
    if (old === text) return;
    let from = 0;
    while (from < old.length && old[from] === text[from]) from += 1;
    let end = 0;
    while (end < Math.min(old.length, text.length) - from && old.at(-1 - end) === text.at(-1 - end)) end += 1;
    this.view.dispatch({
      changes: { from, to: old.length - end, insert: text.slice(from, text.length - end) },
      annotations: [fromCanvas.of(true), isolateHistory.of("full")],
      effects: isShown ? EditorView.scrollIntoView(Math.min(from, text.length), { y: "nearest", yMargin: 60 }) : [],
    });
  }

  go(line, column = 1) {
    const { doc } = this.view.state;
    const found = doc.line(Math.min(Math.max(line, 1), doc.lines));
    const at = Math.min(found.from + column - 1, found.to);
    this.view.focus();
    this.view.dispatch({ selection: EditorSelection.range(at, found.to), effects: EditorView.scrollIntoView(at, { y: "center" }) });
  }

  /* Marks what the server found, each with level, line, column and message. */
  mark(findings) {
    const { doc } = this.view.state;
    const marks = findings.filter((one) => one.line >= 1 && one.line <= doc.lines).map((one) => {
      const line = doc.line(one.line);
      const from = Math.min(line.from + Math.max(one.column - 1, 0), line.to);
      return { from, to: Math.max(line.to, from), severity: one.level === "error" ? "error" : "warning", message: one.message };
    });
    this.view.dispatch(setDiagnostics(this.view.state, marks));
  }

  complete(context) {
    if (!this.schema) return null;
    const place = pathAt(this.text, context.pos);
    if (!place || (!place.word && !context.explicit && place.isKey)) return null;
    const steps = Object.assign([...place.steps], { values: place.steps.length ? {} : place.values });
    if (steps.length && place.isKey) steps[steps.length - 1] = { ...steps.at(-1), values: place.values };
    const schema = schemaAt(this.schema, steps);
    if (!schema) return null;
    const options = place.isKey && (typeOf(schema) === "object" || !place.isItem) ? this.keys(schema, place) : this.values(schema, place);
    return { from: context.pos - place.word.length, options, validFor: /^[\w./:-]*$/ };
  }

  keys(schema, place) {
    return Object.entries(schema.properties ?? {}).filter(([name]) => !(name in place.values)).map(([name, one]) => {
      const here = resolve(this.schema, one);
      const isBlock = ["object", "array"].includes(typeOf(here)) && !variants(this.schema, one).some((each) => each.type === "string");
      const isRequired = schema.required?.includes(name);
      const found = choices(here).map((each) => each.value);
      return {
        label: name,
        type: "property",
        boost: isRequired ? 10 : 0,
        detail: isRequired ? this.texts.required : found.length && found.length < 6 ? found.join(" | ") : String(here.default ?? ""),
        info: here.description || undefined,
        apply: isBlock && !place.isFlow ? `${name}:` : `${name}: `,
      };
    });
  }

  values(schema, { steps }) {
    const key = steps.at(-1)?.key ?? steps.at(-2)?.key;
    const isTop = steps.length === 1;
    if ((isTop && key === "entry_node") || (steps[0]?.key === "edges" && (key === "from" || key === "to"))) {
      return this.names(key === "to").map((label) => ({ label, type: "variable" }));
    }
    if (schema["x-prompt"]) return this.paths().map((label) => ({ label, type: "text" }));
    const examples = (schema.examples ?? []).map((value) => ({ value, label: "" }));
    return [...choices(schema), ...examples].map((one) => ({ label: String(one.value), detail: one.label, type: "enum" }));
  }
}
