// Live updates, keys and copying. Every page can be read without this file.
"use strict";
(() => {
  try {
    document.documentElement.classList.toggle("patterns", localStorage.getItem("patterns") === "on");
  } catch { /* no storage: the choice is for one page */ }
  const live = document.getElementById("live");
  if (live) {
    let last = live.dataset.last;
    let isBusy = false;
    let isAgain = false;
    let isWritten = false;
    const state = document.getElementById("live-state");
    const delta = document.getElementById("delta");
    const badge = document.getElementById("state");

    // New records are appended below; nothing above them moves.
    const load = async () => {
      if (isBusy) { isAgain = true; return; }
      isBusy = true;
      try {
        await loadAll();
      } catch {
        setTimeout(load, 1000);  // the network, or a server that has no time now
      } finally {
        isBusy = false;
      }
    };
    const loadAll = async () => {
      do {
        isAgain = false;
        const answer = await fetch(`${live.dataset.tail}?after=${encodeURIComponent(last)}`);
        if (answer.status === 429 || answer.status >= 500) throw new Error(answer.statusText);
        if (!answer.ok) return;
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
        // What was streamed is a record now, whether this look brought it or the one before.
        if (found.length || isWritten) { delta.hidden = true; delta.textContent = ""; }
        isWritten = false;
        isAgain = isAgain || found.length > 0;
      } while (isAgain);
    };
    if (!location.hash) live.scrollIntoView({ block: "end" });  // a page opens at its newest record
    const events = new EventSource(live.dataset.events + (last ? `?after=${encodeURIComponent(last)}` : ""));
    events.addEventListener("open", () => { state.textContent = "live"; load(); });
    events.addEventListener("error", () => { state.textContent = "not connected, trying again"; });
    events.addEventListener("record", () => { isWritten = true; load(); });
    events.addEventListener("delta", (event) => {
      const piece = JSON.parse(event.data);
      if (piece.kind === "call") return;
      delta.hidden = false;
      delta.textContent += piece.text;
    });
    events.addEventListener("message", (event) => {
      if (!event.data) return;
      const message = JSON.parse(event.data);
      if (badge && message.state) {
        const name = message.state === "answered" ? "idle" : message.state;
        badge.textContent = name;
        badge.className = `state ${name}`;
        const rest = document.title.split(" · ").slice(1);
        document.title = [name === "running" ? "● running" : name, ...rest].join(" · ");
        state.textContent = name === "running" ? "a turn runs" : "live";
        isWritten = isWritten || !["running", "waiting"].includes(name);  // late pieces, too
      }
      load();
    });
    const said = {
      TurnStarted: () => "a turn runs",
      CallStarted: () => "the model is asked",
      ToolStarted: (event) => `the tool ${event.call?.name ?? ""} runs`,
      ToolFinished: (event) => `the tool ${event.call?.name ?? ""} has ended`,
      CompactionStarted: () => "the context is compacted",
      TurnWaiting: () => "waits for another turn of this session",
      TurnFailed: () => "the turn failed",
      TurnCancelled: () => "the turn was cancelled",
    };
    events.addEventListener("turn", (event) => {
      const turn = JSON.parse(event.data);
      if (said[turn.event]) state.textContent = said[turn.event](turn);
    });
    addEventListener("pagehide", () => events.close());
  }

  // Rows of the list that changed are exchanged; the others, the focus and the place stay.
  const list = document.getElementById("live-list");
  if (list) {
    let waiting = 0;
    const refresh = async () => {
      waiting = 0;
      const answer = await fetch(location.href).catch(() => null);  // the next look may work
      if (!answer?.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      labelRows(fresh);
      const rows = list.querySelector("tbody"), found = fresh.querySelector("#live-list tbody");
      if (!rows || !found) return;
      const before = new Map([...rows.rows].map((line) => [line.id, line]));
      const focused = document.activeElement?.closest("tr")?.id;
      const next = [...found.rows].map((line) => {
        const known = before.get(line.id);
        return known && known.innerHTML === line.innerHTML ? known : document.adoptNode(line);
      });
      rows.replaceChildren(...next);
      if (focused) document.getElementById(focused)?.querySelector("a")?.focus({ preventScroll: true });
    };
    const ask = () => { waiting = waiting || setTimeout(refresh, 300); };
    const events = new EventSource(list.dataset.events);
    events.addEventListener("message", (event) => { if (event.data) ask(); });
    events.addEventListener("open", ask);
    setInterval(() => { if (!document.hidden) ask(); }, 15000);  // what other processes do
    addEventListener("pagehide", () => events.close());
  }

  // On a narrow screen a row is a card; each value has the head of its column.
  const labelRows = (part) => {
    for (const table of part.querySelectorAll(".scroll > table")) {
      const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent);
      for (const row of table.tBodies[0]?.rows ?? [])
        [...row.cells].forEach((cell, place) => { if (place) cell.dataset.label = heads[place]; });
      table.parentElement.classList.add("cards");
    }
  };
  const prepare = (part) => {
    labelRows(part);
    for (const item of part.querySelectorAll("[data-copy], [data-copy-link]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "copy";
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(item.href ?? item.textContent);
        button.textContent = "copied";
      });
      item.after(button);
    }
  };
  prepare(document);
  addEventListener("htmx:load", (event) => { if (event.target !== document.body) prepare(event.target); });

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
    if (pair === "gs") location.href = "/sessions";
    else if (event.key === "?") keys.showModal();
    else if (event.key === "/") { document.getElementById("search")?.focus(); event.preventDefault(); }
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "o") (items()[place]?.matches("a") ? items()[place] : items()[place]?.querySelector("a, summary"))?.click();
    else if (event.key === "p") {
      const isOn = document.documentElement.classList.toggle("patterns");
      try { localStorage.setItem("patterns", isOn ? "on" : ""); } catch { /* only for this page */ }
    }
    else if (event.key === "c") open('[data-key="c"]');
  });
})();
