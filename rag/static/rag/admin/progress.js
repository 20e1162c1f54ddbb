// File status polling: updates status cells while files are being indexed.
"use strict";
(() => {
  const EVERY_MS = 2000;
  const busy = () => [...document.querySelectorAll('.desk-status[data-busy="1"]')];
  const address = () => document.body.dataset.progressUrl
    || location.pathname.replace(/\/file\/.*$/, "/file/progress/");

  const begun = new Map();
  let isLooking = false;

  // Remaining time, extrapolated from the progress since the first poll.
  function left(state, words) {
    const bar = document.querySelector(`.desk-status[data-file="${Number(state.id)}"] progress`);
    if (!bar || !words) return;
    const first = begun.get(state.id) || { share: bar.value, at: Date.now() };
    begun.set(state.id, first);
    const done = bar.value - first.share;
    if (done < 1) return;
    const seconds = Math.round(((Date.now() - first.at) / 1000) * (100 - bar.value) / done);
    bar.insertAdjacentText("afterend", ` ${words.replace("{n}", seconds)} `);
  }

  // Progress is shown; only its end is announced to screen readers.
  function tellDone(state) {
    const cell = document.querySelector(`.desk-status[data-file="${Number(state.id)}"]`);
    const name = cell?.closest("li, tr")?.querySelector("a")?.textContent ?? "";
    if (cell) document.dispatchEvent(new CustomEvent("desk-heard", { detail: `${name}: ${cell.textContent}` }));
  }

  function show(state, words) {
    for (const old of document.querySelectorAll(`.desk-status[data-file="${Number(state.id)}"]`)) {
      const row = old.closest("tr");
      const line = old.closest("#desk-results > li");
      const isDone = old.dataset.busy === "1" && !state.is_busy;
      // The server has escaped everything in it.
      old.outerHTML = state.status;
      if (isDone) tellDone(state);
      // What the upload said is past: the file's own state stands in its place.
      line?.querySelector(":scope > .desk-note")?.remove();
      if (line?.querySelector(".desk-bad")) line.className = "desk-card desk-refused";
      if (!row) continue;
      for (const [column, value] of [["kind", state.kind], ["n_pages", state.n_pages], ["chunks", state.chunks]]) {
        const cell = row.querySelector(`.field-${column}`);
        const target = cell && (cell.querySelector("a") || cell);
        if (target) target.textContent = value;
      }
    }
    left(state, words);
  }

  async function look() {
    const ids = busy().map((cell) => cell.dataset.file);
    if (!ids.length) {
      isLooking = false;
      return;
    }
    if (!document.hidden) {
      try {
        const answer = await fetch(`${address()}?ids=${ids.join(",")}`, { headers: { Accept: "application/json" } });
        if (answer.status === 403 || answer.redirected) return;
        if (answer.ok) {
          const told = await answer.json();
          told.files.forEach((state) => show(state, told.left));
        }
      } catch (_) {
        // The server may be restarting; the next look will tell.
      }
    }
    setTimeout(look, EVERY_MS);
  }

  function begin() {
    if (isLooking) return;
    isLooking = true;
    setTimeout(look, EVERY_MS);
  }

  document.addEventListener("DOMContentLoaded", begin);
  // An upload has brought a file that a worker will be at.
  document.addEventListener("desk-busy", begin);
})();
