// A table that is wider than the screen scrolls; this way it does with the keyboard, too.
function reachTables() {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    table.tabIndex = 0;
    table.setAttribute("role", "group");
    table.setAttribute("aria-label", "Table");
  }
}
// An option is not broken behind its hyphens; longer code has to be, on a phone.
function keepOptionsWhole() {
  for (const code of document.querySelectorAll(".md-typeset :not(pre) > code:not(.short)")) {
    if (code.textContent.length <= 28) code.classList.add("short");
  }
}
new MutationObserver(keepOptionsWhole).observe(document.documentElement, { childList: true, subtree: true });
keepOptionsWhole();
new MutationObserver(reachTables).observe(document.documentElement, { childList: true, subtree: true });
reachTables();
