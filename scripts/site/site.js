// A table that is wider than the screen scrolls; this way it does with the keyboard, too.
function reachTables() {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    table.tabIndex = 0;
    table.setAttribute("role", "group");
    table.setAttribute("aria-label", "Table");
  }
}
new MutationObserver(reachTables).observe(document.documentElement, { childList: true, subtree: true });
reachTables();
