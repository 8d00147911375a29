// Live updates, keys and copying. Every page can be read without this file.
"use strict";
(() => {
  const live = document.getElementById("live");
  if (live) {
    let last = live.dataset.last;
    let isBusy = false;
    let isAgain = false;
    const state = document.getElementById("live-state");
    const delta = document.getElementById("delta");
    const badge = document.getElementById("state");

    // New records are appended below; nothing above them moves.
    const load = async () => {
      if (isBusy) { isAgain = true; return; }
      isBusy = true;
      do {
        isAgain = false;
        const answer = await fetch(`${live.dataset.tail}?after=${encodeURIComponent(last)}`);
        if (!answer.ok) break;
        const holder = document.createElement("ol");
        holder.innerHTML = await answer.text();
        const end = holder.querySelector("li.last");
        const found = [...holder.querySelectorAll("li:not(.last)")];
        let list = document.getElementById("records");
        if (!list && found.length) {
          list = Object.assign(document.createElement("ol"), { id: "records", className: "records" });
          live.before(list);
        }
        for (const item of found) if (!document.getElementById(item.id)) list.append(item);
        if (end) last = end.dataset.last;
        if (found.length) { delta.hidden = true; delta.textContent = ""; }
        isAgain = isAgain || found.length > 0;
      } while (isAgain);
      isBusy = false;
    };
    const events = new EventSource(live.dataset.events + (last ? `?after=${encodeURIComponent(last)}` : ""));
    events.addEventListener("open", () => { state.textContent = "live"; load(); });
    events.addEventListener("error", () => { state.textContent = "not connected, trying again"; });
    events.addEventListener("record", load);
    events.addEventListener("delta", (event) => {
      const piece = JSON.parse(event.data);
      if (piece.kind === "call") return;
      delta.hidden = false;
      delta.textContent += piece.text;
    });
    events.addEventListener("message", (event) => {
      if (!event.data) return;
      const message = JSON.parse(event.data);
      if (badge && message.state) badge.textContent = message.state === "answered" ? "idle" : message.state;
      load();
    });
    addEventListener("pagehide", () => events.close());
  }

  for (const item of document.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(item.textContent);
      button.textContent = "copied";
    });
    item.after(button);
  }

  const keys = document.getElementById("keys");
  const items = () => [...document.querySelectorAll("a.item, .records > li, tbody tr a:first-child")];
  let place = -1;
  let before = "";
  const move = (step) => {
    const found = items();
    if (!found.length) return;
    place = Math.min(found.length - 1, Math.max(0, place + step));
    const item = found[place];
    if (item.tagName !== "A") item.tabIndex = -1;
    item.focus();
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, dialog")) return;
    const open = (selector) => document.querySelector(selector)?.click();
    const pair = before + event.key;
    before = event.key === "g" ? "g" : "";
    if (pair === "gs") location.href = "/";
    else if (event.key === "?") keys.showModal();
    else if (event.key === "/") { document.getElementById("search")?.focus(); event.preventDefault(); }
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "o") (items()[place]?.matches("a") ? items()[place] : items()[place]?.querySelector("a, summary"))?.click();
    else if (event.key === "c") open('[data-key="c"]');
  });
})();
