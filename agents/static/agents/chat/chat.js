/* Chat page controller: sessions, sending questions, showing answers. */

import { closeQuote, fill, make } from "./citation_panel.js";
import { toMarkdown } from "./export.js";
import { keepPlace } from "./focus.js";
import { Turn } from "./messages.js";
import { call, events, Problem, setUp } from "./api_client.js";
import { dress, keep, kept, visitorHeaders } from "./visitor.js";

const get = (id) => document.getElementById(id);
const data = JSON.parse(get("chat-data").textContent);
const { texts, agents, stores, widget } = data;
const language = document.documentElement.lang;
setUp(texts, widget ? visitorHeaders(widget.key) : null);
const leaveFrame = widget ? dress(widget, get("close-widget")) : () => {};

let session = "", turns = [], running = null, editing = null, nextPage = null;

/* Choices ------------------------------------------------------------------------------------- */

const agentOf = () => agents.find((one) => one.name === get("agent").value);

function fillStores() {
  const known = new Set(agentOf()?.stores ?? []);
  const options = stores.filter((one) => known.has(one.slug)).map((one) => make("option", { value: one.slug }, one.name));
  get("store").replaceChildren(make("option", { value: "" }, texts.all_stores), ...options);
  get("agent").title = agentOf()?.description ?? "";
}

function choose(agent) {
  if (![...get("agent").options].some((one) => one.value === agent)) return false;
  get("agent").value = agent;
  fillStores();
  return true;
}

/* Questions that the chosen agent's documents answer; without any the page stays as it is. */
async function suggest() {
  const agent = get("agent").value, store = get("store").value;
  suggestions.replaceChildren();
  if (!agent || session) return;
  const found = await call(`/api/agents/${encodeURIComponent(agent)}/suggestions${store && `?store=${encodeURIComponent(store)}`}`).catch(() => null);
  if (session || agent !== get("agent").value || store !== get("store").value) return;
  const ask = (text) => { get("message").value = text; get("ask").requestSubmit(); };
  const entries = (found?.questions ?? []).map((text) => make("li", {}, make("button", { type: "button", onclick: () => ask(text) }, text)));
  suggestions.replaceChildren(...entries);
}

/* Status and error messages -------------------------------------------------------------------- */

const say = (text) => { get("status").textContent = text ?? ""; };
const complain = (error) => {
  if (!(error instanceof Problem)) { console.error(error); }
  get("problem").textContent = error instanceof Problem ? error.message : texts.failed;
  if (error.code === "consent_required") get("problem").append(" ", consentButton(error.params));
};

/** Let the agent of a refused question send what it reads to the hosts that were told. */
function consentButton({ kind, name, hosts }) {
  const button = make("button", { type: "button", class: "consent" }, texts.consent);
  button.addEventListener("click", () => attempt(async () => {
    await call(`/api/consents/${kind}s/${encodeURIComponent(name)}`, { method: "POST", json: { hosts: hosts.split(", ") } });
    say(texts.consented);
  }));
  return button;
}

/** Do what may fail; show why it did. Returns whether it went well. */
async function attempt(work) {
  get("problem").textContent = "";
  try { await work(); return true; } catch (error) { complain(error); return false; }
}

/* Conversations -------------------------------------------------------------------------------- */

async function loadSessions(isMore = false) {
  const words = get("find-session").value.trim();
  const page = await call(isMore ? nextPage : `/api/sessions?limit=30${words && `&q=${encodeURIComponent(words)}`}`);
  if (words !== get("find-session").value.trim()) return; // more was typed since
  // The address of the next page is absolute; only its path is ours to ask.
  nextPage = page.next ? new URL(page.next).pathname + new URL(page.next).search : null;
  const entries = page.results.map(sessionEntry);
  if (isMore) get("session-list").append(...entries);
  else get("session-list").replaceChildren(...(entries.length ? entries : [make("li", { class: "hint" }, words ? texts.none_found : texts.no_sessions)]));
  get("more-sessions").hidden = !nextPage;
}

function sessionEntry(row) {
  const day = new Date(row.updated_at);
  const open = make("a", { href: `#${row.id}`, "aria-current": row.id === session ? "page" : false }, row.title,
    make("time", { datetime: row.updated_at, title: day.toLocaleString(language) }, day.toLocaleDateString(language, { month: "short", day: "numeric" })));
  const entry = make("li", { "data-id": row.id }, open);
  if (!widget) entry.append(
    make("button", { type: "button", title: texts.rename, "aria-label": `${texts.rename}: ${row.title}`, onclick: () => attempt(() => rename(row)) }, "✎"),
    make("button", { type: "button", title: texts.delete, "aria-label": `${texts.delete}: ${row.title}`, onclick: () => attempt(() => remove(row)) }, "✕"));
  return entry;
}

/* The address tells which conversation is open. A frame adds nothing to the history of the page around it. */
function markAddress(id) {
  history[window === parent ? "pushState" : "replaceState"](null, "", id ? `#${id}` : location.pathname + location.search);
  if (widget) keep(`citable-${widget.key}-session`, id, "sessionStorage");
}

async function rename(row) {
  const title = prompt(texts.new_title, row.title)?.trim();
  if (!title || title === row.title) return;
  await call(`/api/sessions/${row.id}`, { method: "PATCH", json: { title } });
  if (row.id === session) showTitle(title);
  await loadSessions();
}

async function remove(row) {
  if (!confirm(fill(texts.delete_sure, { title: row.title }))) return;
  await call(`/api/sessions/${row.id}`, { method: "DELETE" });
  if (row.id === session) begin();
  await loadSessions();
}

/* The list of conversations covers a phone's page until one is chosen. */
function showSessions(isOpen) {
  document.body.classList.toggle("has-sessions", isOpen);
  get("show-sessions").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) get("new-session").focus();
}

function showTitle(title) {
  get("title").textContent = title;
  document.title = `${title} | ${widget ? agents[0].label : "Citable"}`;
}

function begin() {
  if (location.hash) markAddress("");
  leave();
  session = "";
  showTitle(texts.new);
  draw([]);
  suggest();
  get("message").focus();
}

function leave() {
  running?.quiet.abort();
  setRunning(null);
  stopEditing();
  closeQuote();
  say("");
  get("problem").textContent = "";
}

/* All of a conversation: a long one comes in parts, the last of them first. */
async function readMessages(id) {
  let messages = [], until = "";
  do {
    const part = await call(`/api/sessions/${id}/messages${until && `?until=${until}`}`);
    messages = [...part, ...messages];
    until = part[0]?.parent;
  } while (until);
  return messages;
}

async function open(id) {
  leave();
  session = id;
  showSessions(false);
  const [row, messages] = await Promise.all([call(`/api/sessions/${id}`), readMessages(id)]);
  if (session !== id) return;
  showTitle(row.title);
  draw(messages);
  markCurrent();
  if (!choose(row.agent)) throw new Problem(texts.other_agent);
  const last = turns.at(-1);
  if (last?.isRunning) {
    // What is there came from the row; the stream tells it from its beginning.
    Object.assign(last.message, { content: "", citations: [], notices: [] });
    await follow(last, { key: last.message.id });
  }
}

function markCurrent() {
  for (const entry of get("session-list").querySelectorAll("li[data-id]")) {
    const link = entry.querySelector("a");
    if (entry.dataset.id === session) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/* Turns ---------------------------------------------------------------------------------------- */

function draw(messages) {
  turns = [];
  get("exports").hidden = !messages.length;
  get("messages").replaceChildren(...(messages.length ? [] : [welcome]));
  for (const message of messages) append(message);
  turns.forEach((turn) => turn.draw());
  toEnd();
}
const welcome = get("welcome"), suggestions = get("suggestions");

function append(message) {
  welcome.remove();
  get("exports").hidden = false;
  const asked = message.role === "assistant" ? turns.at(-1)?.message.content : undefined;
  const turn = new Turn({ ...message, asked }, texts, acts);
  turns.push(turn);
  get("messages").append(turn.node);
  return turn;
}

const toEnd = () => { get("messages").scrollTop = get("messages").scrollHeight; };
const isAtEnd = () => get("messages").scrollHeight - get("messages").scrollTop - get("messages").clientHeight < 120;

function setRunning(turn, quiet) {
  running = turn ? { turn, quiet } : null;
  get("stop").hidden = !running;
  get("send").hidden = Boolean(running);
}

async function follow(turn, { body, key }) {
  const quiet = new AbortController();
  setRunning(turn, quiet);
  say(texts.looking);
  get("heard").textContent = "";
  toEnd();
  try {
    const onLost = () => say(texts.reconnecting);
    for await (const event of events({ agent: get("agent").value, body, key, onLost, signal: quiet.signal })) {
      const stays = isAtEnd();
      if (event.kind === "start" && !session) {
        session = event.data.session;
        markAddress(session);
      }
      say(turn.take(event) ?? get("status").textContent);
      if (stays) requestAnimationFrame(toEnd);
    }
    // The next question need not wait until the versions of this answer are known.
    setRunning(null);
    say("");
    get("heard").textContent = turn.said();
    await settle(quiet);
  } catch (error) {
    if (quiet.signal.aborted) return;
    if (!turn.message.id) discard(turn);
    throw error;
  } finally {
    if (running?.turn === turn) { setRunning(null); say(""); }
  }
}

/* Nothing was written: what was typed goes back into its field. */
function discard(turn) {
  const question = turns.at(-2);
  turns = turns.filter((one) => one !== turn && (one !== question || question.message.id));
  turn.node.remove();
  if (question && !question.message.id) {
    question.node.remove();
    if (!get("message").value) get("message").value = question.message.content;
  }
}

/* After an answer: keys, versions and titles as the server has them. */
async function settle(quiet) {
  const id = session;
  const [row, messages] = await Promise.all([call(`/api/sessions/${id}`), readMessages(id), loadSessions()]);
  if (quiet.signal.aborted || session !== id || running) return;
  showTitle(row.title);
  markCurrent();
  const isSame = messages.length === turns.length && turns.every((turn, number) => [undefined, messages[number].id].includes(turn.message.id));
  // What is on the screen stays in place: somebody may be reading it, or have it open.
  if (isSame) turns.forEach((turn, number) => turn.renew(messages[number]));
  else draw(messages);
}

const chosenStores = () => (get("store").value ? [get("store").value] : []);

async function ask(text) {
  const parent = editing?.message.parent ?? "";
  if (editing) cutBefore(editing);
  stopEditing();
  append({ role: "user", content: text });
  const answer = append({ role: "assistant", status: "running" });
  await follow(answer, { body: { message: text, session, parent, stores: chosenStores() } });
}

function cutBefore(turn) {
  for (const gone of turns.splice(turns.indexOf(turn))) gone.node.remove();
}

function stopEditing() {
  editing = null;
  get("editing").hidden = true;
}

const acts = {
  regenerate: (turn) => attempt(async () => {
    if (running) throw new Problem(texts.too_long);
    const regenerate = turn.message.id;
    cutBefore(turn);
    const answer = append({ role: "assistant", status: "running" });
    await follow(answer, { body: { regenerate, session, stores: chosenStores() } });
  }),
  branch: (turn) => attempt(async () => {
    await call(`/api/messages/${turn.message.id}/branch`, { method: "POST" });
    await open(session);
    say(texts.going_on);
  }),
  edit: (turn) => {
    editing = turn;
    get("editing").hidden = false;
    get("message").value = turn.message.content;
    get("message").focus();
  },
  // The version's last turn, so that what was said after it is there again.
  choose: (key) => attempt(async () => {
    const page = await call(`/api/messages?session=${session}&limit=200&ordering=-id`);
    const parents = new Map(page.results.map((one) => [one.id, one.parent]));
    const isBelow = (id) => { for (let at = id; at; at = parents.get(at)) if (at === key) return true; return false; };
    const leaf = page.results.find((one) => isBelow(one.id))?.id ?? key;
    await call(`/api/messages/${leaf}/branch`, { method: "POST" });
    await open(session);
  }),
  feedback: (turn, json) => attempt(async () => {
    const row = await call(`/api/messages/${turn.message.id}`, { method: "PATCH", json });
    Object.assign(turn.message, { feedback: row.feedback, feedback_comment: row.feedback_comment });
    turn.draw();
  }),
};

/* The page ------------------------------------------------------------------------------------- */

get("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = get("message").value.trim();
  if (!text || running) return;
  if (!agents.length) { complain(new Problem(texts.no_agent)); return; }
  get("message").value = "";
  attempt(() => ask(text));
});
get("message").addEventListener("keydown", (event) => {
  // While a Chinese word is being composed, Enter chooses it.
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) {
    event.preventDefault();
    get("ask").requestSubmit();
  }
});
get("stop").addEventListener("click", () => attempt(async () => {
  const { turn } = running ?? {};
  if (turn?.message.id) await call(`/api/agents/${encodeURIComponent(get("agent").value)}/chat/${turn.message.id}/stop`, { method: "POST" });
}));
get("cancel-edit").addEventListener("click", () => { stopEditing(); get("message").value = ""; });
get("new-session").addEventListener("click", () => { showSessions(false); begin(); markCurrent(); });
get("more-sessions").addEventListener("click", () => attempt(() => loadSessions(true)));
get("close-evidence").addEventListener("click", closeQuote);
get("agent").addEventListener("change", () => { fillStores(); if (session) { begin(); markCurrent(); } else suggest(); });
get("store").addEventListener("change", () => suggest());
get("export").addEventListener("click", () => {
  const made = make("a", { download: `${get("title").textContent.replace(/[\\/:*?"<>|]+/g, " ").trim() || "chat"}.md` });
  made.href = URL.createObjectURL(new Blob([toMarkdown(get("title").textContent, turns, texts)], { type: "text/markdown" }));
  made.click();
  setTimeout(() => URL.revokeObjectURL(made.href), 10_000);
});
get("print").addEventListener("click", () => print());
let typed = 0;
get("find-session").addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(() => attempt(() => loadSessions()), 250);
});
get("show-sessions").addEventListener("click", () => showSessions(!document.body.classList.contains("has-sessions")));
document.addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
  if (event.key === "Escape" && !closeQuote()) {
    if (document.body.classList.contains("has-sessions")) {
      showSessions(false);
      get("show-sessions").focus();
    } else leaveFrame();
  }
  if (event.key === "/" && !isTyping) { event.preventDefault(); get("message").focus(); }
});

const themes = ["", "dark", "light"];
function useTheme(name) { document.documentElement.dataset.theme = name; }
get("theme").addEventListener("click", () => {
  const isDark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  useTheme(isDark ? "light" : "dark");
  keep("citable-theme", document.documentElement.dataset.theme);
});
useTheme(themes.find((one) => one === kept("citable-theme")) ?? "");

const route = () => (location.hash.length > 1 ? attempt(() => open(location.hash.slice(1))) : begin());
addEventListener("popstate", route);
get("agent").replaceChildren(...agents.map((one) => make("option", { value: one.name }, one.label)));
fillStores();
if (!agents.length) complain(new Problem(texts.no_agent));
loadSessions().catch(complain);
// On the next page of the site the visitor's conversation goes on.
const before = widget && !location.hash ? kept(`citable-${widget.key}-session`, "sessionStorage") : "";
if (before) open(before).then(() => markAddress(before), begin);
else if (location.hash.length > 1) route();
else { suggest(); get("message").focus(); }
keepPlace(get("message"));
document.body.dataset.ready = "yes";
