// Evaluation progress polling; reloads the page with the metrics at the end.
"use strict";
(() => {
  const EVERY_MS = 1000;
  const card = document.getElementById("run-progress");

  async function look() {
    try {
      const answer = await fetch(card.dataset.address, { headers: { Accept: "application/json" } });
      if (answer.redirected || answer.status === 403) return;
      if (answer.status === 404) return location.reload();
      if (answer.ok) {
        const told = await answer.json();
        if (!told.is_busy) return location.reload();
        // The server has escaped everything in it.
        card.querySelector("[data-state]").innerHTML = told.state;
        const bar = card.querySelector("progress");
        bar.max = told.n_questions || 1;
        bar.value = told.n_done;
      }
    } catch (_) {
      // The server may be restarting; the next look will tell.
    }
    setTimeout(look, EVERY_MS);
  }

  look();
})();
