// On every admin page: accessible names for fields without labels, protection against double
// submits, live regions for screen readers.
"use strict";
(() => {
  const TWICE_MS = 4000;

  function name(element, text) {
    const words = (text || "").trim();
    if (words && !element.hasAttribute("aria-label")) element.setAttribute("aria-label", words);
  }

  // A field of a table is called as its column, one without a label as what it asks for.
  function column(field) {
    const cell = field.closest("td");
    const row = cell && cell.closest("tr");
    const heads = row && row.closest("table").querySelectorAll("thead tr:last-child > *");
    const head = heads && heads[[...row.cells].indexOf(cell)];
    return head ? head.textContent : "";
  }

  function nameFields(within) {
    for (const icon of within.querySelectorAll(".material-symbols-outlined")) icon.setAttribute("aria-hidden", "true");
    for (const field of within.querySelectorAll("input:not([type=hidden]), select, textarea")) {
      const isNamed = field.labels && [...field.labels].some((label) => label.textContent.trim());
      if (!isNamed) name(field, field.title || field.placeholder || column(field));
    }
    for (const way of within.querySelectorAll("a[href], button")) {
      const isIcon = way.firstElementChild && way.firstElementChild.matches(".material-symbols-outlined");
      if (isIcon && way.textContent.trim() === way.firstElementChild.textContent.trim() && !way.title) {
        const field = way.parentElement.querySelector("input[type=text], input[type=search]");
        name(way, field ? field.getAttribute("aria-label") || field.placeholder : document.title.split("|").pop());
      }
    }
  }

  // The fields of a choice are made by a library, which names them by what is chosen: they are
  // called as the choice, and what is chosen comes behind.
  function nameWidgets() {
    for (const box of document.querySelectorAll(".select2-container")) {
      const choice = box.previousElementSibling;
      if (!choice?.matches("select")) continue;
      const label = choice.labels[0];
      const words = label ? "" : choice.getAttribute("aria-label") || column(choice);
      for (const field of box.querySelectorAll("[role=combobox], [role=searchbox], .select2-search__field")) {
        const chosen = field.getAttribute("aria-labelledby") || "";
        if (!label) {
          if (words) field.removeAttribute("aria-labelledby");
          name(field, words);
        } else {
          label.id ||= `${choice.id}-label`;
          if (!chosen.includes(label.id)) field.setAttribute("aria-labelledby", `${label.id} ${chosen}`.trim());
        }
      }
    }
    // It shows what is chosen and is no field of its own.
    for (const shown of document.querySelectorAll(".select2-selection__rendered[role=textbox]")) {
      shown.removeAttribute("role");
      shown.removeAttribute("aria-readonly");
    }
    for (const icon of document.querySelectorAll(".help-tooltip[aria-label]:not([role])")) icon.setAttribute("role", "img");
    // Each scrolls apart, and all are called alike.
    const table = document.querySelector("#main .simplebar-content-wrapper[aria-label]");
    table?.setAttribute("aria-label", document.title.split("|")[0].trim());
  }

  // A second click while the first is on its way would do the same once more. A download leaves
  // the page as it is, so that the form can be sent again after a while.
  function sendOnce(event) {
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post") return;
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "1";
    setTimeout(() => delete form.dataset.sent, TWICE_MS);
  }

  function hear(text) {
    let region = document.getElementById("desk-heard");
    if (!region) {
      region = document.createElement("p");
      region.id = "desk-heard";
      region.className = "desk-heard";
      region.setAttribute("role", "status");
      document.body.append(region);
    }
    region.textContent = text;
  }

  document.addEventListener("DOMContentLoaded", () => {
    nameFields(document);
    // The theme names no landmark for what a page is about.
    const about = document.querySelector("body:not(:has(main)) #main") ?? document.querySelector("body.login #page > div");
    about?.setAttribute("role", "main");
    // Libraries make their fields when the page has long been there, and again when one is opened.
    new MutationObserver(nameWidgets).observe(document.body, { childList: true, subtree: true });
    nameWidgets();
    // Unfold would look for the text field that its own file fields have.
    for (const file of document.querySelectorAll(".desk-card input[type=file]")) file.hasChangeListener = true;
    hear("");
    document.querySelector("body.login [name=username]")?.focus();
  });
  document.addEventListener("formset:added", (event) => nameFields(event.target));
  document.addEventListener("desk-heard", (event) => hear(event.detail));
  window.addEventListener("submit", sendOnce);
})();
