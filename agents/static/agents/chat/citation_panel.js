/* Citation panel: the page of a quote or source as text and, for PDFs, as an image. */

import { call, pictureAddress, Problem } from "./api_client.js";

const get = (id) => document.getElementById(id);
let opener = null, latest = 0;

/** On a phone the panel covers the page, which is inert then. */
function cover(isOpen) {
  const isOver = isOpen && getComputedStyle(get("evidence")).position === "fixed";
  for (const one of document.querySelectorAll("body > .skip, body > header, #sessions, main")) one.inert = isOver;
}

export function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") made.addEventListener("click", value);
    else if (key === "class") made.className = value;
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const fill = (text, values) => text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);

/** Close the panel and give the focus back to what had opened it. */
export function closeQuote() {
  latest += 1;
  if (get("evidence").hidden) return false;
  get("evidence").hidden = true;
  cover(false);
  document.body.classList.remove("has-evidence");
  (opener?.isConnected ? opener : get("message")).focus();
  return true;
}

/** Show citation or source `number` of message `key`; `known` is what the answer says about it. */
export async function openQuote({ key, number, of, known, from, texts }) {
  const mine = ++latest;
  opener = from ?? document.activeElement;
  const body = get("evidence-body");
  get("evidence-title").textContent = known.file_name || known.source?.name || "…";
  body.replaceChildren(...about(known, texts), make("p", { class: "hint" }, texts.loading));
  get("evidence").hidden = false;
  document.body.classList.add("has-evidence");
  cover(true);
  get("evidence").focus();
  try {
    const page = await call(`/api/quotes/${key}/${number}?of=${of}`);
    if (mine !== latest) return;
    show(page, { key, number, of, known, texts, mine });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (mine === latest) body.replaceChildren(...about(known, texts), make("p", { class: "problem" }, error.message));
  }
}

function about(known, texts) {
  if (!known.verdict) return [];
  return [
    make("p", {}, make("span", { class: `verdict ${known.verdict}` }, texts[known.verdict] ?? known.verdict), " ", texts[`about_${known.verdict}`] ?? ""),
    known.claim ? make("p", {}, make("span", { class: "hint" }, texts.claim, ": "), known.claim) : null,
    known.quote ? make("p", {}, make("span", { class: "hint" }, texts.quote, ": "), make("q", {}, known.quote)) : null,
  ].filter(Boolean);
}

function show(page, asked) {
  const { texts, known } = asked;
  const place = [page.page === null ? "" : fill(texts.page, { n: page.page }), ...page.heading_path].filter(Boolean).join(" · ");
  get("evidence-title").textContent = page.file_name;
  const text = make("pre", { class: "page-text", tabindex: "0" });
  if (page.start === null) text.append(page.text);
  else {
    // Offsets count code points; a script's strings count halves of some.
    const points = Array.from(page.text);
    const borders = [page.start, ...page.omitted.flat().map((at) => page.start + at), page.end];
    const parts = borders.slice(1).map((end, n) => points.slice(borders[n], end).join(""));
    // Every second part is what the quote leaves out at an ellipsis.
    const marked = parts.map((part, n) => (n % 2 ? part : make("mark", n ? {} : { id: "quote-mark" }, part)));
    text.append(points.slice(0, page.start).join(""), ...marked, points.slice(page.end).join(""));
  }
  const picture = page.has_image ? make("div", { class: "page-picture" }, make("p", { class: "hint" }, texts.drawing)) : null;
  get("evidence-body").replaceChildren(
    ...about(known, texts),
    make("p", { class: "hint" }, place),
    page.url ? make("p", {}, make("a", { href: page.url, target: "_blank", rel: "noopener noreferrer" }, texts.origin)) : "",
    ...(page.is_current ? [] : [make("p", { class: "notice" }, texts.changed)]),
    ...(picture ? [make("h3", {}, texts.picture), picture] : []),
    make("h3", {}, texts.text), text,
  );
  const mark = get("quote-mark");
  if (mark) text.scrollTop = mark.offsetTop - text.offsetTop - text.clientHeight / 3;
  if (picture) draw(picture, page, asked);
}

async function draw(picture, page, { key, number, of, texts, mine }) {
  const base = `/api/quotes/${key}/${number}`;
  try {
    const [marks, src] = await Promise.all([call(`${base}/marks?of=${of}`), pictureAddress(`${base}/image?of=${of}`)]);
    if (mine !== latest) return;
    const image = make("img", {
      src, width: marks.width, height: marks.height,
      alt: fill(texts.picture_of, { n: page.page, name: page.file_name }),
    });
    const sheet = make("div", { class: "sheet" }, image);
    for (const [left, top, width, height] of marks.boxes) {
      const box = make("div", { class: "box" });
      Object.assign(box.style, { left: `${left * 100}%`, top: `${top * 100}%`, width: `${width * 100}%`, height: `${height * 100}%` });
      sheet.append(box);
    }
    const frame = make("div", { class: "frame", tabindex: "0" }, sheet);
    const zoom = make("button", { type: "button", onclick: () => frame.classList.toggle("large") }, texts.zoom);
    picture.replaceChildren(zoom, ...(marks.boxes.length ? [] : [make("p", { class: "hint" }, texts.no_marks)]), frame);
    const first = sheet.querySelector(".box");
    if (first) image.addEventListener("load", () => { frame.scrollTop = first.offsetTop - frame.clientHeight / 3; });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (mine === latest) picture.replaceChildren(make("p", { class: "problem" }, error.message));
  }
}
