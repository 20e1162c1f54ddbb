/* Worker of the flow editor: YAML and layouts away from the page, which draws meanwhile. */

import { applyEdit, linesOf, parseValue, placeNodes, readFlow, writeValue } from "./flow_text.js";

const TASKS = {
  read({ text }) {
    const model = readFlow(text);
    return !model || model.isTooLarge ? model : { model, lines: linesOf(model), ...placeNodes(model) };
  },
  edit: ({ text, edit }) => applyEdit(text, edit),
  parse: ({ text }) => parseValue(text),
  write: ({ value }) => writeValue(value),
};

addEventListener("message", ({ data }) => {
  try {
    postMessage({ id: data.id, value: TASKS[data.task](data) });
  } catch (error) {
    postMessage({ id: data.id, error: String(error.message ?? error) });
  }
});
