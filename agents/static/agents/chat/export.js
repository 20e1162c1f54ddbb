/* Conversation export: the turns on the screen as Markdown, with their citations as footnotes. */

import { fill } from "./citation_panel.js";

/** Return a conversation as Markdown. What a reader may not see any more is not in the turns. */
export function toMarkdown(title, turns, texts) {
  const parts = [`# ${oneLine(title)}`];
  turns.forEach((turn, index) => {
    const { message } = turn;
    parts.push(`## ${turn.isAnswer ? texts.answer : texts.you}`);
    const told = turn.isAnswer ? turn.groundingText() : "";
    if (told) parts.push(`*${told}*`);
    // Each answer counts its citations from one; the file has one list of footnotes.
    const name = (number) => `[^${index + 1}-${number}]`;
    const known = new Set(message.citations.map((one) => one.number));
    parts.push(turn.isAnswer ? message.content.replace(/\[(\d{1,4})\]/g, (whole, number) => (known.has(Number(number)) ? name(number) : whole)) : message.content);
    const notes = message.citations.map((one) => `${name(one.number)}: ${footnote(one, texts)}`);
    if (notes.length) parts.push(notes.join("\n"));
  });
  return `${parts.join("\n\n")}\n`;
}

function footnote(one, texts) {
  const place = [one.file_name || one.doc_id, one.page ? fill(texts.page, { n: one.page }) : ""].filter(Boolean).join(", ");
  return oneLine([`${place} (${texts[one.verdict] ?? one.verdict})`, one.quote ? `“${one.quote}”` : ""].filter(Boolean).join(": "));
}

const oneLine = (text) => text.replace(/\s+/g, " ").trim();
