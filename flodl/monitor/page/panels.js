// Everything around the charts: first what is about one run (progress, alerts, epochs, machine, model), then all runs.
(() => {
  const { make, number, bytes, duration } = fm;
  const at = (id) => document.getElementById(id);
  const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const words = (run) => STATUS[run.status] + (run.damaged && run.status !== "damaged" ? ", partly damaged" : "");
  const STATUS = { running: "running", finished: "finished", stopped: "stopped", lost: "ended without a word", damaged: "damaged" };
  const LINK = { live: "live", connecting: "connecting …", reconnecting: "connection lost, trying again …", archive: "archive", ended: "" };
  let rowsShown = 60;

  function lastStep(run) {
    return Math.max(-1, ...Object.values(run.data.metrics).map((series) => series.last ?? -1));
  }

  function drawLink() {
    // Nothing is live when no run is running, although the server would tell of a new one.
    const idle = fm.state.link === "live" && ![...fm.runs.values()].some((run) => run.status === "running");
    at("link").textContent = idle ? "" : LINK[fm.state.link];
    at("link").className = "pill quiet" + (fm.state.link === "reconnecting" ? " wait" : "");
  }

  function drawHead() {
    const run = fm.focused();
    if (!run) return;
    const epochs = run.epochs.epoch, done = epochs.length ? epochs[epochs.length - 1] + 1 : 0;
    at("title").textContent = run.title || run.name;
    const label = run.identity.label || "";
    const hash = run.identity.hash ? run.identity.hash.slice(0, 8) : "";
    at("subtitle").textContent = [label !== run.title ? label : "", hash, run.hardware].filter(Boolean).join(" · ");
    at("status").textContent = words(run);
    at("status").className = `pill ${run.status}`;
    const share = run.total ? Math.min(100, (100 * done) / run.total) : run.status === "finished" ? 100 : 0;
    at("bar").firstElementChild.style.width = `${share}%`;
    at("bar").setAttribute("aria-valuenow", Math.round(share));
    at("bar").setAttribute("aria-valuetext", run.total ? `epoch ${done} of ${run.total}` : `epoch ${done}`);
    drawFacts(run, done);
    drawChoice(run);
    const mark = run.status === "running" ? "" : run.status === "finished" ? "✓ " : "! ";
    document.title = `${mark}${run.total ? `${done}/${run.total} · ` : ""}${run.title || run.name}`;
    drawControls(run);
  }

  function drawChoice(run) {
    const select = at("run"), names = [...fm.runs.keys()];
    select.hidden = names.length < 2;
    // Made anew each second, an open list would close.
    if (select.dataset.names !== names.join("\n")) {
      select.dataset.names = names.join("\n");
      select.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    }
    if (select.value !== run.name) select.value = run.name;
    for (const part of ["machine", "graph"]) {
      const text = (part === "graph" ? "Model" : "Machine") + (names.length > 1 ? ` of ${run.name}` : "");
      const heading = at(part).querySelector("h2");
      if (heading.textContent !== text) heading.textContent = text;
    }
  }

  function drawFacts(run, done) {
    const epochs = run.epochs, last = epochs.epoch.length - 1;
    const now = Date.now() / 1000;
    const live = run.status === "running" && !fm.state.archive;
    const end = live ? now : epochs.time[last] ?? run.started;
    const facts = [["Epoch", run.total ? `${done}` : done || "–", run.total ? `/ ${run.total}` : ""]];
    const step = lastStep(run);
    if (step >= 0) facts.push(["Step", step.toLocaleString("en")]);
    facts.push(["Elapsed", duration(Math.max(0, end - run.started))]);
    const eta = last >= 0 ? epochs.eta[last] : null;
    if (live && eta != null && done < run.total) facts.push(["Left", duration(Math.max(0, eta - (now - run.received)))]);
    if (last >= 0) facts.push(["Per epoch", duration(epochs.duration[last])]);
    for (const [name, column] of Object.entries(epochs.metrics).slice(0, 4)) {
      const value = column[last];
      const before = column[last - 1];
      const arrow = value == null || before == null || value === before ? "" : value < before ? "↓" : "↑";
      const best = fm.best(run, name);
      facts.push([name, number(value), arrow, best && (best.at === last ? "best so far" : `best ${number(best.value)}, epoch ${best.epoch}`)]);
    }
    at("facts").replaceChildren(...facts.map(([name, value, extra, best]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value), extra ? make("small", {}, ` ${extra}`) : null), best ? make("dd", { class: "best" }, best) : null)));
  }

  function drawControls(run) {
    const usable = run.status === "running" && fm.state.token && !fm.state.archive ? run.accepts : [];
    const holder = at("controls"), key = usable.join();
    if (holder.dataset.key === key) return;
    holder.dataset.key = key;
    const words = { save: "Save now", stop: "Stop", pause: "Pause or go on", evaluate: "Evaluate now" };
    holder.replaceChildren(...usable.map((action) => make("button", {
      type: "button",
      onclick: async (event) => {
        if (action === "stop" && !confirm("Stop this training?")) return;
        event.target.disabled = true;
        const problem = await fm.control(run, action);
        event.target.disabled = false;
        at("announce").textContent = problem || `${words[action] || action}: asked for`;
      },
    }, words[action] || action)));
  }

  function drawAlerts() {
    const all = fm.visible().flatMap((run) => run.alerts.map((alert) => ({ ...alert, run })));
    all.sort((a, b) => b.time - a.time);
    const words = { nan: "NaN", plateau: "Plateau", stall: "Stall", storage: "Storage" };
    at("alerts").hidden = !all.length;
    at("alerts").classList.toggle("bad", all.some((alert) => alert.kind === "nan"));
    at("alerts").lastElementChild.replaceChildren(...all.slice(0, 6).map((alert) => make("li", {},
      make("b", {}, words[alert.kind] || alert.kind), make("span", {}, alert.message + (fm.runs.size > 1 ? ` (${alert.run.name})` : "")), make("time", {}, clock(alert.time)))));
    if (fm.state.fresh) {
      at("announce").textContent = `Alert: ${fm.state.fresh.message.message}`;
      fm.state.fresh = null;
    }
  }

  function drawEpochs() {
    const run = fm.focused();
    const count = run ? run.epochs.epoch.length : 0;
    at("epochs").hidden = !count;
    if (!count) return;
    const { epochs } = run, names = Object.keys(epochs.metrics);
    const [head, body] = [at("epochs").querySelector("thead"), at("epochs").querySelector("tbody")];
    at("epochs-h").textContent = fm.runs.size > 1 ? `Epochs of ${run.name}` : "Epochs";
    const machine = [["cpu", "CPU", (v) => `${Math.round(v)} %`], ["gpu", "GPU", (v) => `${Math.round(v)} %`], ["ram_used", "RAM", bytes], ["vram_used", "VRAM", bytes]].filter(([name]) => epochs.resources[name]);
    head.replaceChildren(make("tr", {}, ...["Epoch", ...names, "Time", ...machine.map((each) => each[1])].map((name) => make("th", { scope: "col" }, name))));
    const from = Math.max(0, count - rowsShown);
    const rows = [];
    for (let i = count - 1; i >= from; i--) {
      rows.push(make("tr", {}, make("th", { scope: "row" }, String(epochs.epoch[i] + 1)), ...names.map((name) => make("td", {}, number(epochs.metrics[name][i]))),
        make("td", {}, duration(epochs.duration[i])), ...machine.map(([name, , text]) => make("td", {}, epochs.resources[name][i] == null ? "–" : text(epochs.resources[name][i])))));
    }
    body.replaceChildren(...rows);
    at("more").hidden = !from;
    at("csv").hidden = fm.state.archive;
    at("csv").href = "epochs.csv?" + new URLSearchParams({ run: run.name, ...(fm.state.token ? { token: fm.state.token } : {}) });
  }

  function drawMeters() {
    const run = fm.focused();
    if (!run || !Object.keys(run.data.resources).length) return;
    const value = (name) => { const series = run.data.resources[name]; return series && series.mean.length ? series.mean[series.mean.length - 1] : null; };
    const meters = [["CPU", value("cpu"), 100], ["RAM", value("ram_used"), value("ram_total")], ["GPU", value("gpu"), 100], ["VRAM", value("vram_used"), value("vram_total")]];
    const found = meters.filter(([, now, most]) => now != null && most).map(([name, now, most]) => {
      const text = most === 100 ? `${Math.round(now)} %` : `${bytes(now)} of ${bytes(most)}`;
      const fill = make("div");
      fill.style.width = `${Math.min(100, (100 * now) / most)}%`;
      return make("div", {}, make("dt", {}, name), make("dd", {}, text, make("div", { class: "meter" + (now > 0.95 * most && most !== 100 ? " hot" : ""), "aria-hidden": "true" }, fill)));
    });
    for (const [name, unit] of [["power", "W"], ["temperature", "°C"]]) {
      if (value(name) != null) found.push(make("div", {}, make("dt", {}, name === "power" ? "Power" : "Temperature"), make("dd", {}, `${Math.round(value(name))} ${unit}`)));
    }
    if (value("throttled")) found.push(make("div", {}, make("dt", {}, "Throttled"), make("dd", {}, "yes, by heat or power")));
    at("meters").replaceChildren(...found);
  }

  // ---- model -----------------------------------------------------------------------------------
  let drawn = "", scale = 0;

  async function drawGraph() {
    const run = fm.focused();
    at("graph").hidden = !run || !run.picture;
    if (at("graph").hidden || !at("graph").open) return;
    const key = `${run.name}:${run.picture}`;
    if (drawn === key) return;
    drawn = key;
    let text = run.drawing || "";
    if (!fm.state.archive) {
      const answer = await fetch("graph.svg?" + new URLSearchParams({ run: run.name, ...(fm.state.token ? { token: fm.state.token } : {}) }));
      text = answer.ok ? await answer.text() : "";
    }
    const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    if (svg.nodeName !== "svg") return;
    for (const script of svg.querySelectorAll("script, foreignObject")) script.remove();
    at("graph").querySelector(".picture").replaceChildren(document.importNode(svg, true));
    themeGraph();
    fitGraph(scale);
  }
  function fitGraph(next) {
    scale = next;
    const svg = at("graph").querySelector(".picture svg");
    if (!svg) return;
    const box = svg.viewBox.baseVal;
    const room = at("graph").querySelector(".picture").clientWidth - 4;
    const width = scale ? box.width * scale : Math.min(box.width, room);
    svg.setAttribute("width", width);
    svg.setAttribute("height", (width * box.height) / box.width);
  }
  // A drawing follows the system; the page may have been told otherwise.
  function themeGraph() {
    const sheet = at("graph").querySelector(".picture svg style")?.sheet;
    for (const rule of sheet ? sheet.cssRules : []) {
      if (rule.media) rule.media.mediaText = fm.dark() ? "all" : "not all";
    }
  }

  at("run").addEventListener("change", () => fm.focus(at("run").value));
  at("more").addEventListener("click", () => { rowsShown *= 4; drawEpochs(); });
  at("graph").addEventListener("toggle", drawGraph);
  const current = () => scale || (at("graph").querySelector(".picture svg")?.clientWidth ?? 1) / (at("graph").querySelector(".picture svg")?.viewBox.baseVal.width || 1);
  at("graph-in").addEventListener("click", () => fitGraph(current() * 1.25));
  at("graph-out").addEventListener("click", () => fitGraph(current() / 1.25));
  at("graph-fit").addEventListener("click", () => fitGraph(0));

  Object.assign(fm, { clock, words, drawLink, drawHead, drawAlerts, drawEpochs, drawMeters, drawGraph, themeGraph });
})();

// Several runs beside each other: their best values, the settings in which they differ, and their events.
(() => {
  const { make, number } = fm;
  const at = (id) => document.getElementById(id);
  const LOWER = /loss|error|perplexity|(^|[^a-z])(err|mae|mse|rmse|nll|ppl|wer|cer|fid)([^a-z]|$)/i;
  const HIGHER = /acc|precision|recall|score|reward|(^|[^a-z])(f1|auc|bleu|rouge|iou|dice|map|psnr|ssim|r2)([^a-z]|$)/i;
  const MOST_SETTINGS = 5, MOST_EVENTS = 200;
  const unfolded = new Set();

  // +1 if higher is better, -1 if lower is, 0 if the name does not tell.
  const direction = (name) => (LOWER.test(name) ? -1 : HIGHER.test(name) ? 1 : 0);

  function best(run, name) {
    const way = direction(name), column = run.epochs.metrics[name] || [];
    let found = -1;
    for (let i = 0; way && i < column.length; i++) {
      if (column[i] != null && (found < 0 || (column[i] - column[found]) * way > 0)) found = i;
    }
    return found < 0 ? null : { at: found, value: column[found], epoch: run.epochs.epoch[found] + 1 };
  }

  // ---- settings --------------------------------------------------------------------------------
  function settingText(value) {
    if (Array.isArray(value)) return value.join(", ");
    if (typeof value === "number") return value.toLocaleString("en", { maximumSignificantDigits: 8 });
    return String(value);
  }
  function settingsOf(run) {
    const flat = new Map();
    const walk = (value, path) => {
      if (value && typeof value === "object" && !Array.isArray(value)) for (const [name, inner] of Object.entries(value)) walk(inner, path ? `${path}.${name}` : name);
      else flat.set(path, settingText(value));
    };
    walk(run.metadata, "");
    return flat;
  }
  function settingNames(runs) {
    return [...new Set(runs.flatMap((run) => [...settingsOf(run).keys()]))];
  }
  const differs = (name, runs) => new Set(runs.map((run) => settingsOf(run).get(name))).size > 1;

  function drawSetup() {
    const run = fm.focused(), runs = fm.visible().length > 1 ? fm.visible() : [run].filter(Boolean);
    const names = settingNames(runs), tables = runs.map(settingsOf);
    at("setup").hidden = !names.length;
    const holder = at("setup").lastElementChild;
    if (runs.length < 2) {
      holder.replaceChildren(make("dl", {}, ...names.flatMap((name) => [make("dt", {}, name), make("dd", {}, tables[0].get(name))])));
      return;
    }
    holder.replaceChildren(make("table", {},
      make("thead", {}, make("tr", {}, ...["Setting", ...runs.map((each) => each.name)].map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...names.map((name) => make("tr", { class: differs(name, runs) ? "differs" : null },
        make("th", { scope: "row" }, name), ...tables.map((table) => make("td", {}, table.get(name) ?? "–")))))));
  }

  // ---- runs ------------------------------------------------------------------------------------
  function nameCell(run) {
    const box = make("input", { type: "checkbox", "data-run": run.name, "aria-label": `Show ${run.name}`, onchange: () => { run.shown = box.checked; fm.refresh(run); fm.mark("all"); } });
    box.checked = run.shown;
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = fm.palette(run.index);
    const name = make("button", { type: "button", "data-choose": run.name, "aria-pressed": String(run === fm.focused()), onclick: () => fm.focus(run.name) }, run.name);
    return make("td", {}, make("label", {}, box, " ", swatch), name);
  }

  function drawRuns() {
    const all = [...fm.runs.values()];
    at("runs").hidden = all.length < 2;
    if (all.length < 2) return;
    const metrics = [...new Set(all.flatMap((run) => Object.keys(run.epochs.metrics)))].slice(0, 6);
    const settings = settingNames(all).filter((name) => differs(name, all)).slice(0, MOST_SETTINGS);
    const [head, body] = [at("runs").querySelector("thead"), at("runs").querySelector("tbody")];
    head.replaceChildren(make("tr", {}, ...["Run", "State", "Epoch", ...settings, ...metrics].map((name) => make("th", { scope: "col" }, name))));
    const winners = metrics.map((name) => {
      const found = all.map((run) => best(run, name)?.value).filter((value) => value != null);
      if (found.length < 2) return null;
      return direction(name) > 0 ? Math.max(...found) : Math.min(...found);
    });
    const active = document.activeElement?.dataset ?? {};
    body.replaceChildren(...all.map((run) => {
      const last = run.epochs.epoch.length - 1, table = settingsOf(run);
      return make("tr", { class: run === fm.focused() ? "chosen" : null }, nameCell(run), make("td", {}, fm.words(run)),
        make("td", {}, `${last >= 0 ? run.epochs.epoch[last] + 1 : 0}${run.total ? ` / ${run.total}` : ""}`),
        ...settings.map((name) => make("td", {}, table.get(name) ?? "–")),
        ...metrics.map((name, i) => {
          const top = best(run, name);
          const mark = top && make("small", {}, ` best ${number(top.value)}`);
          return make("td", { class: top && top.value === winners[i] ? "winner" : null }, number(run.epochs.metrics[name]?.[last]), mark);
        }));
    }));
    if (active.run) body.querySelector(`[data-run="${CSS.escape(active.run)}"]`)?.focus();
    if (active.choose) body.querySelector(`[data-choose="${CSS.escape(active.choose)}"]`)?.focus();
  }

  // ---- events ----------------------------------------------------------------------------------
  // Of equal events of a run in a row, only the last is shown until they are unfolded.
  function grouped(runs) {
    const groups = [];
    for (const run of runs) {
      let group = null;
      for (const event of run.events) {
        if (!group || group.kind !== event.kind) groups.push(group = { run, kind: event.kind, key: `${run.name}:${event.time}:${event.kind}`, events: [] });
        group.events.push(event);
      }
    }
    const last = (group) => group.events[group.events.length - 1];
    return groups.sort((a, b) => last(b).time - last(a).time).slice(0, MOST_EVENTS);
  }

  function eventRow(event, run) {
    let name = null;
    if (run) {
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = fm.palette(run.index);
      name = make("span", { class: "of" }, swatch, run.name);
    }
    return [make("time", {}, fm.clock(event.time)), name, make("b", {}, event.kind), make("span", {}, event.message)];
  }

  function drawEvents() {
    const groups = grouped(fm.visible());
    at("events").hidden = !groups.length;
    at("events").querySelector("ul").replaceChildren(...groups.map((group) => {
      const run = fm.runs.size > 1 ? group.run : null;
      const rows = [...group.events].reverse();
      const item = make("li", {}, ...eventRow(rows[0], run).filter(Boolean));
      if (rows.length < 2) return item;
      const open = unfolded.has(group.key);
      item.append(make("button", { type: "button", "aria-expanded": String(open), onclick: () => { if (!unfolded.delete(group.key)) unfolded.add(group.key); drawEvents(); } }, `${open ? "Hide" : "Show"} ${rows.length - 1} earlier`));
      if (open) item.append(make("ul", {}, ...rows.slice(1).map((event) => make("li", {}, ...eventRow(event, null).filter(Boolean)))));
      return item;
    }));
  }

  Object.assign(fm, { best, drawSetup, drawRuns, drawEvents });
})();
