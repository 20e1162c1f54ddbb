// Keeps the status of files up to date while a worker is at them.
"use strict";
(() => {
  const EVERY_MS = 2000;
  const busy = () => [...document.querySelectorAll('.desk-status[data-busy="1"]')];
  const address = () => document.body.dataset.progressUrl
    || location.pathname.replace(/\/file\/.*$/, "/file/progress/");

  function show(state) {
    for (const old of document.querySelectorAll(`.desk-status[data-file="${Number(state.id)}"]`)) {
      const row = old.closest("tr");
      // The server has escaped everything in it.
      old.outerHTML = state.status;
      if (!row) continue;
      for (const [column, value] of [["kind", state.kind], ["n_pages", state.n_pages], ["chunks", state.chunks]]) {
        const cell = row.querySelector(`.field-${column}`);
        const target = cell && (cell.querySelector("a") || cell);
        if (target) target.textContent = value;
      }
    }
  }

  async function look() {
    const ids = busy().map((cell) => cell.dataset.file);
    if (!ids.length) return;
    if (!document.hidden) {
      try {
        const answer = await fetch(`${address()}?ids=${ids.join(",")}`, { headers: { Accept: "application/json" } });
        if (answer.status === 403 || answer.redirected) return;
        if (answer.ok) (await answer.json()).files.forEach(show);
      } catch (_) {
        // The server may be restarting; the next look will tell.
      }
    }
    setTimeout(look, EVERY_MS);
  }

  document.addEventListener("DOMContentLoaded", () => setTimeout(look, EVERY_MS));
})();
