/* Markdown renderer: text to a DocumentFragment.

   Nodes are made one by one and texts are set as texts, so there is no HTML in a text that could
   become one of the page; an address is kept only if it leads to http, https or mail. */

const SAFE = /^(https?:\/\/|mailto:)/i;
// Lengths are bounded: an opening mark without an end must not be looked for over the whole text.
const INLINE = /(`{1,9})([\s\S]{0,2000}?[^`])\1(?!`)|\*\*([^\s*][\s\S]{0,1000}?)\*\*(?!\*)|__([^\s_][\s\S]{0,1000}?)__(?!\w)|\*([^\s*][^*]{0,1000}?)\*|~~([^~]{1,1000})~~|!?\[([^\]]{0,500})\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+"[^"]*")?\s*\)|\[(\d{1,4})\]|(https?:\/\/[^\s<>()\[\]"'，。；：！？、）」』]+)|\\([\\`*_{}\[\]()#+\-.!~|>])|(<[bB][rR] ?\/?>)/;
const MAX_DEPTH = 8;

/** Return the text as nodes; `cite(number)` gives the node of a citation's mark, or null. */
export function render(text, cite = () => null) {
  const target = document.createDocumentFragment();
  blocks(text.replace(/\r\n?/g, "\n").split("\n"), target, cite, 0);
  return target;
}

function element(name, ...children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}

function inline(text, cite, depth) {
  const nodes = [];
  while (text) {
    const match = depth < MAX_DEPTH ? INLINE.exec(text) : null;
    if (!match) { nodes.push(text); break; }
    if (match.index) nodes.push(text.slice(0, match.index));
    nodes.push(...piece(match, cite, depth + 1));
    text = text.slice(match.index + match[0].length);
  }
  return nodes;
}

function piece(match, cite, depth) {
  const [whole, , code, strong, strong2, soft, struck, label, address, number, bare, escaped, broken] = match;
  if (code !== undefined) return [element("code", code.trim() || code)];
  if (strong ?? strong2) return [element("strong", ...inline(strong ?? strong2, cite, depth))];
  if (soft !== undefined) return [element("em", ...inline(soft, cite, depth))];
  if (struck !== undefined) return [element("s", ...inline(struck, cite, depth))];
  if (label !== undefined) return link(label || address, address, whole, cite, depth);
  if (number !== undefined) return [cite(Number(number)) ?? whole];
  if (bare !== undefined) return link(bare, bare, whole, cite, MAX_DEPTH);
  return [broken ? element("br") : escaped];
}

/* A picture becomes a link too: to fetch it would tell somebody that the answer is being read. */
function link(label, address, whole, cite, depth) {
  if (!SAFE.test(address)) return [whole];
  const made = element("a", ...inline(label, cite, depth));
  made.href = address;
  made.rel = "noopener noreferrer nofollow";
  made.target = "_blank";
  return [made];
}

const STARTS = [
  [/^ {0,3}(`{3,}|~{3,})/, fence], [/^ {0,3}#{1,6}\s+/, heading], [/^ {0,3}([-*_])( *\1){2,} *$/, rule],
  [/^ {0,3}> ?/, quote], [/^( *)([-*+]|\d{1,9}[.)])\s+/, list],
];

function blocks(lines, target, cite, depth) {
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) { at += 1; continue; }
    const start = depth < MAX_DEPTH && STARTS.find(([pattern]) => pattern.test(lines[at]));
    if (start) at = start[1](lines, at, target, cite, depth);
    else if (isTable(lines, at)) at = table(lines, at, target, cite, depth);
    else at = paragraph(lines, at, target, cite, depth);
  }
}

function fence(lines, at, target) {
  const mark = lines[at].trim().match(/^(`{3,}|~{3,})/)[0];
  let end = at + 1;
  while (end < lines.length && !lines[end].trim().startsWith(mark)) end += 1;
  target.append(element("pre", element("code", lines.slice(at + 1, end).join("\n"))));
  return end + 1;
}

function heading(lines, at, target, cite, depth) {
  const [, marks, text] = lines[at].trim().match(/^(#+)\s*(.*?)\s*#*$/);
  // The page has its own first and second headings.
  target.append(element(`h${Math.min(6, marks.length + 2)}`, ...inline(text, cite, depth)));
  return at + 1;
}

function rule(lines, at, target) {
  target.append(element("hr"));
  return at + 1;
}

function quote(lines, at, target, cite, depth) {
  const inner = [];
  while (at < lines.length && /^ {0,3}>/.test(lines[at])) inner.push(lines[at++].replace(/^ {0,3}> ?/, ""));
  const made = element("blockquote");
  blocks(inner, made, cite, depth + 1);
  target.append(made);
  return at;
}

function list(lines, at, target, cite, depth) {
  const item = /^( *)([-*+]|\d{1,9}[.)])\s+/;
  const [, indent, mark] = lines[at].match(item);
  const isOrdered = /\d/.test(mark);
  const made = element(isOrdered ? "ol" : "ul");
  if (isOrdered) made.start = parseInt(mark, 10);
  while (at < lines.length) {
    const match = lines[at].match(item);
    if (!match || match[1].length !== indent.length || /\d/.test(match[2]) !== isOrdered) break;
    const inner = [lines[at].slice(match[0].length)];
    at += 1;
    while (at < lines.length && (!lines[at].trim() ? /^ /.test(lines[at + 1] ?? "") : lines[at].match(/^ */)[0].length > indent.length)) {
      inner.push(lines[at++].replace(new RegExp(`^ {0,${match[0].length}}`), ""));
    }
    const entry = element("li");
    blocks(inner, entry, cite, depth + 1);
    const only = entry.children.length === 1 && entry.firstElementChild.tagName === "P" ? entry.firstElementChild : null;
    if (only) only.replaceWith(...only.childNodes);
    made.append(entry);
    while (at < lines.length && !lines[at].trim() && item.test(lines[at + 1] ?? "")) at += 1;
  }
  target.append(made);
  return at;
}

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());

function isTable(lines, at) {
  return lines[at].includes("|") && /^ *\|? *:?-+:? *(\| *:?-+:? *)*\|? *$/.test(lines[at + 1] ?? "") && lines[at + 1].includes("|");
}

function table(lines, at, target, cite, depth) {
  const row = (line, kind) => element("tr", ...cells(line).map((cell) => element(kind, ...inline(cell, cite, depth))));
  const body = element("tbody");
  const made = element("table", element("thead", row(lines[at], "th")), body);
  at += 2;
  while (at < lines.length && lines[at].includes("|")) body.append(row(lines[at++], "td"));
  const box = element("div", made);
  box.className = "wide";
  target.append(box);
  return at;
}

function paragraph(lines, at, target, cite, depth) {
  const begin = at;
  do at += 1; while (at < lines.length && lines[at].trim() && !STARTS.some(([pattern]) => pattern.test(lines[at])) && !isTable(lines, at));
  const made = element("p");
  lines.slice(begin, at).forEach((line, number) => {
    if (number) made.append(element("br"));
    made.append(...inline(line.trim(), cite, depth));
  });
  target.append(made);
  return at;
}
