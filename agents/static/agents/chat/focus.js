/* Focus management: keeps keyboard focus across re-rendering. */

const nameOf = (node) => node.title || node.getAttribute("aria-label") || node.textContent;
const rowOf = (node) => {
  const { key, id } = node.closest("[data-key], [data-id]")?.dataset ?? {};
  return key ? `[data-key="${CSS.escape(key)}"]` : id ? `[data-id="${CSS.escape(id)}"]` : "body";
};
const isShown = (node) => node.isConnected && node.checkVisibility();

/** Restore focus to the control of the same name and row, or to `otherwise`. */
export function keepPlace(otherwise) {
  let last = null;
  document.addEventListener("focusin", ({ target }) => {
    last = target.matches(":focus-visible") ? { node: target, row: rowOf(target), name: nameOf(target) } : null;
  });
  new MutationObserver(() => {
    if (!last || isShown(last.node) || ![document.body, last.node].includes(document.activeElement)) return;
    const row = document.querySelector(last.row) ?? document;
    const same = [...row.querySelectorAll("button:enabled, a, summary")].findLast((one) => nameOf(one) === last.name && isShown(one));
    (same ?? otherwise).focus();
  }).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["hidden"] });
}
