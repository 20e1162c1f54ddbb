/* Widget loader: a button, and our chat page in a frame. It runs on pages of others, so it touches
   nothing of theirs but one element with a shadow root, and needs of their content security
   policy no more than our address in script-src and frame-src. `settings` comes from the server. */

const chosen = (document.documentElement.lang || navigator.language).toLowerCase().startsWith("zh") ? "zh-hans" : "en";
const texts = settings.texts[chosen] ?? settings.texts.en;
// The address that the script came by is the one that this page can reach.
const page = new URL(new URL(settings.page).pathname, document.currentScript?.src ?? settings.page);
page.searchParams.set("lang", chosen);

const CSS = `
:host { all: initial !important; display: block !important; }
button { position: fixed; right: 20px; bottom: 20px; z-index: 2147483000; display: flex; align-items: center; gap: 8px; max-width: calc(100vw - 40px); padding: 12px 18px; border: 0; border-radius: 999px; font: 600 16px/1.25 system-ui, sans-serif; cursor: pointer; box-shadow: 0 4px 16px rgb(0 0 0 / .25); color: ${settings.on_accent}; background: ${settings.accent}; }
button:focus-visible { outline: 3px solid ${settings.accent}; outline-offset: 3px; }
svg { width: 20px; height: 20px; flex: none; fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
iframe { position: fixed; right: 20px; bottom: 84px; z-index: 2147483001; width: 420px; height: min(680px, calc(100dvh - 104px)); border: 1px solid rgb(128 128 128 / .4); border-radius: 12px; background: Canvas; box-shadow: 0 8px 32px rgb(0 0 0 / .3); }
[hidden] { display: none; }
@media (max-width: 480px) { iframe { inset: 0; width: 100%; height: 100dvh; border: 0; border-radius: 0; } }
`;

function element(name, values, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(values)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function bubble() {
  const [svg, path] = ["svg", "path"].map((name) => document.createElementNS("http://www.w3.org/2000/svg", name));
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", "M4 4h16v12H10l-5 4v-4H4z");
  svg.append(path);
  return svg;
}

function mount() {
  const host = document.createElement("citable-widget");
  const root = host.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(CSS);
  root.adoptedStyleSheets = [sheet];
  const button = element("button", { type: "button", "aria-expanded": "false" }, bubble(), texts.open);
  root.append(button);
  let frame = null;
  // As soon as somebody comes near, so that it is there when they press.
  const load = () => {
    if (frame) return;
    frame = element("iframe", { src: page.href, title: settings.title, allow: "clipboard-write", hidden: "" });
    root.append(frame);
  };
  const show = (isOpen) => {
    load();
    frame.hidden = !isOpen;
    button.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) frame.focus();
    else button.focus();
  };
  button.addEventListener("pointerenter", load);
  button.addEventListener("focus", load);
  button.addEventListener("click", () => show(!frame || frame.hidden));
  addEventListener("message", (event) => {
    if (event.source === frame?.contentWindow && event.origin === page.origin && event.data === "citable:close") show(false);
  });
  document.body.append(host);
}

if (!settings.origins.includes(location.origin)) console.error(texts.refused.replace("{origin}", location.origin).replace("{home}", page.host));
else if (document.body) mount();
else addEventListener("DOMContentLoaded", mount);
