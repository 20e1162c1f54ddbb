/* API client: JSON requests, and server-sent events that resume after a lost connection. */

const LAST = new Set(["done", "error", "stopped"]);
const WAITS_MS = [500, 1000, 2000, 4000, 8000, 8000, 8000];

export class Problem extends Error {}

let texts = {}, visitor = null;
/** Set the texts of failures and, on a widget's page, the headers of its visitor. */
export function setUp(given, headers) { texts = given; visitor = headers; }

function cookie(name) {
  const found = document.cookie.split("; ").find((part) => part.startsWith(`${name}=`));
  return found ? decodeURIComponent(found.slice(name.length + 1)) : "";
}

async function send(path, options = {}) {
  const headers = { ...(visitor ?? { "X-CSRFToken": cookie("csrftoken") }), ...options.headers };
  if (options.json !== undefined) headers["Content-Type"] = "application/json";
  const body = options.json === undefined ? undefined : JSON.stringify(options.json);
  const answer = await fetch(path, { method: options.method ?? "GET", headers, body, signal: options.signal, credentials: visitor ? "omit" : "same-origin" });
  if (answer.ok) return answer;
  if (answer.status === 401 && !visitor) throw new Problem(texts.signed_out);
  const told = await answer.json().catch(() => null);
  const error = told?.error;
  const fields = Object.values(error?.fields ?? {}).flat().map((one) => (typeof one === "string" ? one : one?.message)).filter(Boolean);
  const problem = new Problem([error?.message, ...fields, error?.hint].filter(Boolean).join(" ") || texts.failed);
  throw Object.assign(problem, { code: error?.code, params: error?.params });
}

/** Return the JSON of an address; raise Problem with a sentence for people. */
export async function call(path, options = {}) {
  let answer;
  try {
    answer = await send(path, options);
  } catch (error) {
    throw error instanceof Problem ? error : new Problem(texts.failed);
  }
  return answer.status === 204 ? null : answer.json();
}

/** Return the address of a picture: its own, or that of its bytes where a header must be sent. */
export async function pictureAddress(path) {
  return visitor ? URL.createObjectURL(await (await send(path)).blob()) : path;
}

async function* parts(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      let end;
      while ((end = rest.indexOf("\n\n")) >= 0) {
        const event = read(rest.slice(0, end));
        rest = rest.slice(end + 2);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function read(block) {
  const event = { id: 0, kind: "", data: "" };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(": ");
    const [name, value] = [line.slice(0, colon), line.slice(colon + 2)];
    if (name === "id") event.id = Number(value);
    if (name === "event") event.kind = value;
    if (name === "data") event.data += value;
  }
  return event.kind && event.kind !== "ping" ? { ...event, data: JSON.parse(event.data) } : null;
}

/** Yield the events of a new answer (`body`), or of the one called `key`, to its end.

    When the connection is lost the rest is asked for with Last-Event-ID; `onLost` is told. */
export async function* events({ agent, body, key = "", onLost, signal }) {
  const base = `/api/agents/${encodeURIComponent(agent)}/chat`;
  let last = 0, tries = 0;
  for (;;) {
    try {
      const answer = key
        ? await send(`${base}/${key}`, { headers: { "Last-Event-ID": String(last) }, signal })
        : await send(base, { method: "POST", json: body, signal });
      for await (const event of parts(answer)) {
        tries = 0;
        if (event.id) last = event.id;
        if (event.kind === "start") key = event.data.message;
        yield event;
        if (LAST.has(event.kind)) return;
      }
    } catch (error) {
      if (error instanceof Problem || signal?.aborted) throw error;
      if (!key) throw new Problem(texts.failed);
    }
    if (tries >= WAITS_MS.length) throw new Problem(texts.lost);
    onLost?.();
    await new Promise((resolve) => setTimeout(resolve, WAITS_MS[tries++]));
  }
}
