/* Flow runs: starts and controls runs by the API, refreshes the page while one is running. */
(() => {
  const start = document.getElementById("flow-start");
  const steer = document.getElementById("flow-steer");
  const part = document.getElementById("flow-part");
  const problem = document.getElementById("flow-problem");
  const form = start ?? steer;
  if (!form) return;

  function tell(text) {
    problem.textContent = text;
    problem.hidden = !text;
  }

  async function post(path, body) {
    tell("");
    try {
      const token = form.querySelector("[name=csrfmiddlewaretoken]").value;
      const answer = await fetch(path, { method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json", "X-CSRFToken": token }, body: JSON.stringify(body) });
      const told = await answer.json();
      if (answer.ok) return told;
      tell([told.error?.message, told.error?.hint].filter(Boolean).join(" ") || form.dataset.failed);
    } catch {
      tell(form.dataset.failed);
    }
    return null;
  }

  const pageOf = (key) => form.dataset.run.replace("00000000-0000-0000-0000-000000000000", key);

  // Each version has inputs of its own.
  start?.querySelector("[name=version]")?.addEventListener("change", (event) => location.assign(event.target.value ? `?version=${event.target.value}` : location.pathname));

  start?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const values = new FormData(start);
    const body = { message: values.get("message"), wait_s: 0 };
    if (values.get("given")?.trim()) {
      try { body.given = JSON.parse(values.get("given")); } catch { body.given = null; }
      if (body.given === null || typeof body.given !== "object" || Array.isArray(body.given)) { tell(start.dataset.noJson); return; }
    }
    for (const field of start.querySelectorAll("[data-input]")) {
      const text = field.value.trim();
      if (!text) continue;
      let value = text;
      if (field.dataset.type === "json") {
        try { value = JSON.parse(text); } catch { tell(`${field.dataset.input}: ${start.dataset.noValue}`); field.focus(); return; }
      }
      body.given = { [field.dataset.input]: value, ...body.given };
    }
    if (values.get("version")) body.version = Number(values.get("version"));
    if (values.get("model")?.trim()) body.model = values.get("model").trim();
    const button = start.querySelector("button[type=submit]");
    button.disabled = true;
    const told = await post(start.dataset.api, body);
    button.disabled = false;
    if (told) location.assign(pageOf(told.key));
  });

  const stateOf = () => document.querySelector("#flow-state dd")?.textContent ?? "";
  const wishOf = (button) => JSON.stringify({ ...button.dataset });
  let shown = "";

  // The server's own page of this run, escaped there. The keyboard stays where it was, and a new
  // state is spoken.
  function show(markup) {
    if (markup === shown) return;
    shown = markup;
    const held = part.contains(document.activeElement) ? wishOf(document.activeElement) : null;
    const before = stateOf();
    const open = [...part.querySelectorAll("details[data-visit][open]")].map((one) => one.dataset.visit);
    part.innerHTML = markup;
    for (const one of part.querySelectorAll("details[data-visit]")) if (open.includes(one.dataset.visit)) one.open = true;
    if (held) ([...part.querySelectorAll("[data-verb]")].find((one) => wishOf(one) === held) ?? part).focus();
    if (stateOf() !== before) document.dispatchEvent(new CustomEvent("desk-heard", { detail: stateOf() }));
  }

  async function renew() {
    const answer = await fetch(`${location.pathname}?part=1`, { credentials: "same-origin" }).catch(() => null);
    if (answer?.ok) show(await answer.text());
    later();
  }

  function later() {
    if (document.getElementById("flow-state")?.dataset.running === "1") setTimeout(renew, 700);
  }

  // What a node did is asked for when it is opened: of long runs it is much.
  async function open(visit) {
    const room = visit.querySelector(".flow-detail");
    if (!visit.open || room.querySelector(".flow-block, .desk-note")) return;
    const wish = new URLSearchParams({ part: "visit", visit: visit.dataset.visit });
    const answer = await fetch(`${location.pathname}?${wish}`, { credentials: "same-origin" }).catch(() => null);
    if (answer?.ok) room.innerHTML = await answer.text();
    else tell(form.dataset.failed);
  }
  part?.addEventListener("toggle", (event) => { if (event.target.matches("details[data-visit]")) open(event.target); }, true);

  // Adds to a decision what was said and changed; false where that is no JSON.
  function edited(review, body) {
    const comment = review.querySelector("[data-comment]").value.trim();
    if (comment) body.comment = comment;
    body.values = {};
    for (const area of review.querySelectorAll("[data-edit]")) {
      if (area.value === area.defaultValue) continue;
      try {
        body.values[area.dataset.edit] = area.dataset.json ? JSON.parse(area.value) : area.value;
      } catch (error) {
        tell(`${area.dataset.edit}: ${error.message}`);
        area.focus();
        return false;
      }
    }
    return true;
  }

  part?.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-verb]");
    // Not disabled, which would take the focus away.
    if (!button || button.ariaDisabled === "true") return;
    const { verb, decision, node, from, visitNumber } = button.dataset;
    const body = { cancel: {}, replay: { from_node: from, visit: Number(visitNumber ?? 1), wait_s: 0 }, resume: { decision: decision ?? "", node: node ?? "", wait_s: 0 } }[verb];
    const review = verb === "resume" && button.closest(".flow-review");
    if (review && !edited(review, body)) return;
    button.ariaDisabled = "true";
    const told = await post(`${form.dataset.api}/${verb}`, body);
    button.ariaDisabled = null;
    if (!told) return;
    if (verb === "replay") location.assign(pageOf(told.key));
    else renew();
  });
  if (!part) return;
  // Inert until here, so that no press of its buttons is lost before they are heard.
  part.inert = false;
  later();
})();
