/* Flow editor: jumps to an error's line and column, shows the cursor's position. */
(() => {
  const code = document.getElementById("flow-yaml");
  const place = document.getElementById("flow-place");
  if (!code) return;

  function go(line, column) {
    const lines = code.value.split("\n");
    const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    const end = before + (lines[line - 1] ?? "").length;
    code.focus();
    code.setSelectionRange(Math.min(before + column - 1, end), end);
    code.scrollTop = (line - 4) * parseFloat(getComputedStyle(code).lineHeight);
  }

  function tell() {
    const lines = code.value.slice(0, code.selectionStart).split("\n");
    place.textContent = `${lines.length}:${lines.at(-1).length + 1}`;
  }

  for (const button of document.querySelectorAll("[data-line]")) {
    button.addEventListener("click", () => go(Number(button.dataset.line), Number(button.dataset.column)));
    // Disabled until here, so that no press of it is lost before it is heard.
    button.disabled = false;
  }
  for (const kind of ["keyup", "click", "focus", "select"]) code.addEventListener(kind, tell);
  // Two blanks in place of a tab; Escape gives the tab key back to whoever walks through the page.
  let isFree = false;
  code.addEventListener("keydown", (event) => {
    if (event.key === "Escape") isFree = true;
    else if (event.key === "Tab" && !event.shiftKey && !isFree) {
      event.preventDefault();
      code.setRangeText("  ", code.selectionStart, code.selectionEnd, "end");
    }
  });
  code.addEventListener("blur", () => { isFree = false; });
})();
