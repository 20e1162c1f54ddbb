/* Flow path: where a cursor stands in YAML, also where the text is unfinished and no parser reads it. */

const KEY = /^("[^"]*"|'[^']*'|[^\s#:{}[\],&*!|>'"%@`][^:#{}[\],]*?)\s*:(?:\s+|$)/;

/* Returns the steps to the cursor, the values beside it, what is typed, and whether it is a key. */
export function pathAt(text, position) {
  const lines = text.slice(0, position).split("\n");
  const last = lines.pop();
  const stack = [{ indent: -1, values: {} }];
  let scalar = -1;
  for (const line of lines) {
    const indent = line.search(/\S/);
    if (indent < 0 || line[indent] === "#") continue;
    if (scalar >= 0 && indent > scalar) continue;
    scalar = walk(stack, line, indent);
  }
  const indent = last.search(/\S/) < 0 ? last.length : last.search(/\S/);
  if (scalar >= 0 && indent > scalar) return null;
  return atCursor(stack, last, indent);
}

/* Takes one line into the stack; returns the indent of a block scalar that begins in it, else -1. */
function walk(stack, line, indent) {
  let [at, rest] = [indent, line.slice(indent)];
  [at, rest] = items(stack, at, rest);
  const found = KEY.exec(rest);
  if (!found) return -1;
  const key = found[1].replace(/^["']|["']$/g, "");
  const value = rest.slice(found[0].length).replace(/\s+#.*$/, "").trim();
  container(stack, at).values[key] = plain(value);
  stack.push({ indent: at, key, values: {} });
  return /^[|>]/.test(value) ? at : -1;
}

function items(stack, at, rest) {
  while (/^-(\s|$)/.test(rest)) {
    while (stack.at(-1).indent > at || (stack.at(-1).indent === at && stack.at(-1).isItem)) stack.pop();
    stack.push({ indent: at, isItem: true, values: {} });
    const skipped = /^-\s*/.exec(rest)[0].length;
    at += Math.max(skipped, 2);
    rest = rest.slice(skipped);
  }
  return [at, rest];
}

function container(stack, at) {
  while (stack.length > 1 && stack.at(-1).indent >= at) stack.pop();
  return stack.at(-1);
}

function atCursor(stack, line, indent) {
  let [at, rest] = items(stack, indent, line.slice(indent));
  const open = container(stack, at);
  const steps = stack.slice(1).map((one) => ({ key: one.isItem ? undefined : one.key, values: one.values }));
  const found = KEY.exec(rest);
  const isItem = open.isItem && !found;
  let value = rest;
  if (found) {
    steps.push({ key: found[1].replace(/^["']|["']$/g, ""), values: {} });
    value = rest.slice(found[0].length);
  } else if (!/^[{[]/.test(rest)) {
    return told(steps, open.values, rest, true, isItem);
  }
  return inFlow(steps, open.values, value);
}

/* Follows { and [ of the cursor's own line. */
function inFlow(steps, beside, text) {
  const open = [];
  let word = "";
  let quote = "";
  for (const letter of text) {
    const here = open.at(-1);
    if (quote) { if (letter === quote) quote = ""; else word += letter; continue; }
    if ((letter === '"' || letter === "'") && !word.trim()) { quote = letter; word = ""; continue; }
    if (letter === "{" || letter === "[") {
      if (here?.isList) steps.push({ key: undefined, values: {} });
      open.push({ isList: letter === "[", values: {}, depth: steps.length, key: undefined });
      word = "";
    } else if (here && ":,}]".includes(letter)) {
      if (letter === ":" && !here.isList && here.key === undefined) {
        here.key = word.trim();
        steps.push({ key: here.key, values: {} });
      } else if (letter === ":") { word += letter; continue; } else {
        if (here.key !== undefined) here.values[here.key] = plain(word.trim());
        here.key = undefined;
        steps.length = here.depth;
        if (letter !== ",") open.pop();
      }
      word = "";
    } else word += letter;
  }
  const here = open.at(-1);
  if (!here) return told(steps, beside, text.trimStart(), false, false);
  if (here.isList) return told([...steps, { key: undefined, values: {} }], {}, word.trimStart(), false, false);
  for (const one of open) if (steps[one.depth - 1]) steps[one.depth - 1].values = one.values;
  return told(steps, here.values, word.trimStart(), here.key === undefined, false, true);
}

const told = (steps, values, word, isKey, isItem, isFlow = false) => ({ steps, values, word, isKey, isItem, isFlow });

function plain(text) {
  const bare = text.replace(/^(["'])(.*)\1$/, "$2");
  return bare === "true" ? true : bare === "false" ? false : bare;
}
