// The theme under a policy without eval: what Alpine's parser cannot read is said otherwise here.
// Its parser knows no globals, no arrow functions, no statements and no changes of elements.
"use strict";
(() => {
  const OTHERWISE = new Map([
    [/^sidebarDesktopOpen = !sidebarDesktopOpen;.*$/, "sidebarDesktopOpen = !sidebarDesktopOpen"],
    [/^window\.location\.href = \$el\.href \+ window\.location\.hash$/, "$openWithHash($el)"],
    [/^activeTab && activeTab !== 'general' \? window\.location[^]*$/, "$tabAddress(activeTab)"],
    [/^'width: ' \+ changeListWidth \+ 'px'$/, "{ width: changeListWidth + 'px' }"],
    [/^openSearchResults = false; if \(.*$/, "openSearchResults = false"],
    [/^if \((.*?)\) (selectItem\(.*\))$/, "$1 && $2"],
  ]);

  function reword(root) {
    for (const element of root.querySelectorAll("*")) {
      for (const attribute of element.attributes) {
        if (!/^[x:@]/.test(attribute.name)) continue;
        for (const [pattern, words] of OTHERWISE) {
          attribute.value = attribute.value.trim().replace(pattern, words);
        }
      }
      if (element.content instanceof DocumentFragment) reword(element.content);
    }
  }

  // The state of the page's frame; the first tab is told within the attribute that is replaced.
  function frame(first) {
    return () => ({
      activeTab: first,
      sidebarMobileOpen: false,
      sidebarDesktopOpen: localStorage.getItem("sidebarDesktopOpen") !== "0",
      init() {
        this.activeTab = getCurrentTab() || first;
        this.$watch("sidebarDesktopOpen", (open) => localStorage.setItem("sidebarDesktopOpen", open ? "1" : "0"));
      },
    });
  }

  document.addEventListener("alpine:init", () => {
    const { body } = document;
    const told = body.getAttribute("x-data") || "";
    Alpine.data("frame", frame((/activeTab: '([^']*)'/.exec(told) || ["", ""])[1]));
    body.setAttribute("x-data", "frame");
    body.removeAttribute("x-init");
    for (const name of ["theme", "searchForm", "searchDropdown", "searchCommand"]) {
      if (typeof window[name] === "function") Alpine.data(name, window[name]);
    }
    Alpine.magic("openWithHash", () => (link) => { location.href = link.href + location.hash; });
    Alpine.magic("tabAddress", () => (tab) => location.pathname + location.search + (tab && tab !== "general" ? `#${tab}` : ""));
    reword(document);
  });

  htmx.config.includeIndicatorStyles = false;
  htmx.config.allowEval = false;
})();
