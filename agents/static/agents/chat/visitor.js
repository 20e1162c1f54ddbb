/* Visitor of a widget: no account, but a secret that their browser keeps, and a page in a frame. */

const memory = new Map();

/** Return what this browser keeps under a name; one that keeps nothing forgets with the page. */
export function kept(name, place = "localStorage") {
  try { return window[place].getItem(name) ?? memory.get(name) ?? ""; } catch { return memory.get(name) ?? ""; }
}

export function keep(name, value, place = "localStorage") {
  memory.set(name, value);
  try { window[place].setItem(name, value); } catch { /* memory has it */ }
}

/** Return the headers that say who a visitor of the widget is, and their language. */
export function visitorHeaders(key) {
  let secret = kept(`citable-${key}`);
  if (!/^[0-9a-f]{64}$/.test(secret)) {
    secret = Array.from(crypto.getRandomValues(new Uint8Array(32)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    keep(`citable-${key}`, secret);
  }
  return { "X-Citable-Visitor": `${key}:${secret}`, "Accept-Language": document.documentElement.lang };
}

/** Dress the page in the widget's colours, and let it be closed where it stands in a frame. */
export function dress({ accent, on_accent: onAccent }, close) {
  document.documentElement.style.setProperty("--accent", accent);
  document.documentElement.style.setProperty("--on-accent", onAccent);
  close.hidden = window === parent;
  // Whoever is around may know that somebody wants to close it; the loader looks at who says so.
  const leave = () => parent.postMessage("citable:close", "*");
  close.addEventListener("click", leave);
  return close.hidden ? () => {} : leave;
}
