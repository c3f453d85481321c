// Everything around the charts: progress, alerts, runs, epochs, the model, the setup.
(() => {
  const { make, number, bytes, duration } = fm;
  const at = (id) => document.getElementById(id);
  const first = () => fm.visible()[0] || [...fm.runs.values()][0];
  const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const STATUS = { running: "running", finished: "finished", stopped: "stopped", lost: "ended without a word", damaged: "damaged" };
  const LINK = { live: "live", connecting: "connecting …", reconnecting: "connection lost, trying again …", archive: "archive", ended: "" };
  let rowsShown = 60;

  function lastStep(run) {
    return Math.max(-1, ...Object.values(run.data.metrics).map((series) => series.last ?? -1));
  }

  function drawLink() {
    at("link").textContent = LINK[fm.state.link];
    at("link").className = "pill quiet" + (fm.state.link === "reconnecting" ? " wait" : "");
  }

  function drawHead() {
    const run = first();
    if (!run) return;
    const epochs = run.epochs.epoch, done = epochs.length ? epochs[epochs.length - 1] + 1 : 0;
    at("title").textContent = run.title || run.name;
    const label = run.identity.label || "";
    const hash = run.identity.hash ? run.identity.hash.slice(0, 8) : "";
    at("subtitle").textContent = [label !== run.title ? label : "", hash, run.hardware].filter(Boolean).join(" · ");
    at("status").textContent = STATUS[run.status] + (run.damaged && run.status !== "damaged" ? ", partly damaged" : "");
    at("status").className = `pill ${run.status}`;
    const share = run.total ? Math.min(100, (100 * done) / run.total) : run.status === "finished" ? 100 : 0;
    at("bar").firstElementChild.style.width = `${share}%`;
    at("bar").setAttribute("aria-valuenow", Math.round(share));
    at("bar").setAttribute("aria-valuetext", run.total ? `epoch ${done} of ${run.total}` : `epoch ${done}`);
    drawFacts(run, done);
    const mark = run.status === "running" ? "" : run.status === "finished" ? "✓ " : "! ";
    document.title = `${mark}${run.total ? `${done}/${run.total} · ` : ""}${run.title || run.name}`;
    drawControls(run);
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
      facts.push([name, number(value), arrow]);
    }
    at("facts").replaceChildren(...facts.map(([name, value, extra]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value), extra ? make("small", {}, ` ${extra}`) : null))));
  }

  function drawControls(run) {
    const usable = run.status === "running" && fm.state.token && !fm.state.archive ? run.accepts : [];
    const holder = at("controls"), key = usable.join();
    if (holder.dataset.key === key) return;
    holder.dataset.key = key;
    const words = { save: "Save now", stop: "Stop", pause: "Pause or go on" };
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

  function drawRuns() {
    const all = [...fm.runs.values()];
    at("runs").hidden = all.length < 2;
    if (all.length < 2) return;
    const names = [...new Set(all.flatMap((run) => Object.keys(run.epochs.metrics)))].slice(0, 6);
    const [head, body] = [at("runs").querySelector("thead"), at("runs").querySelector("tbody")];
    head.replaceChildren(make("tr", {}, ...["Run", "State", "Epoch", ...names].map((name) => make("th", { scope: "col" }, name))));
    const focused = document.activeElement?.dataset?.run;
    body.replaceChildren(...all.map((run) => {
      const last = run.epochs.epoch.length - 1;
      const box = make("input", { type: "checkbox", "data-run": run.name, onchange: () => { run.shown = box.checked; fm.refresh(run); fm.mark("all"); } });
      box.checked = run.shown;
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = fm.palette(run.index);
      return make("tr", {}, make("td", {}, make("label", {}, box, " ", swatch, run.name)), make("td", {}, STATUS[run.status] + (run.damaged && run.status !== "damaged" ? ", partly damaged" : "")),
        make("td", {}, `${last >= 0 ? run.epochs.epoch[last] + 1 : 0}${run.total ? ` / ${run.total}` : ""}`),
        ...names.map((name) => make("td", {}, number(run.epochs.metrics[name]?.[last]))));
    }));
    if (focused) body.querySelector(`[data-run="${CSS.escape(focused)}"]`)?.focus();
  }

  function drawEpochs() {
    const run = first();
    const count = run ? run.epochs.epoch.length : 0;
    at("epochs").hidden = !count;
    if (!count) return;
    const { epochs } = run, names = Object.keys(epochs.metrics);
    const [head, body] = [at("epochs").querySelector("thead"), at("epochs").querySelector("tbody")];
    at("epochs-h").textContent = fm.visible().length > 1 ? `Epochs of ${run.name}` : "Epochs";
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
    const run = fm.visible().find((each) => Object.keys(each.data.resources).length);
    if (!run) return;
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

  // ---- model, setup, events --------------------------------------------------------------------
  let drawn = "", scale = 0;

  async function drawGraph() {
    const run = first();
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

  function drawSetup() {
    const run = first();
    const flat = [];
    const walk = (value, path) => {
      if (value && typeof value === "object" && !Array.isArray(value)) for (const [name, inner] of Object.entries(value)) walk(inner, path ? `${path}.${name}` : name);
      else flat.push([path, Array.isArray(value) ? value.join(", ") : typeof value === "number" ? value.toLocaleString("en", { maximumSignificantDigits: 8 }) : String(value)]);
    };
    if (run) walk(run.metadata, "");
    at("setup").hidden = !flat.length;
    at("setup").querySelector("dl").replaceChildren(...flat.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  }

  function drawEvents() {
    const all = fm.visible().flatMap((run) => run.events).sort((a, b) => b.time - a.time).slice(0, 200);
    at("events").hidden = !all.length;
    at("events").querySelector("ul").replaceChildren(...all.map((event) => make("li", {}, make("time", {}, clock(event.time)), make("b", {}, event.kind), make("span", {}, event.message))));
  }

  at("more").addEventListener("click", () => { rowsShown *= 4; drawEpochs(); });
  at("graph").addEventListener("toggle", drawGraph);
  const current = () => scale || (at("graph").querySelector(".picture svg")?.clientWidth ?? 1) / (at("graph").querySelector(".picture svg")?.viewBox.baseVal.width || 1);
  at("graph-in").addEventListener("click", () => fitGraph(current() * 1.25));
  at("graph-out").addEventListener("click", () => fitGraph(current() / 1.25));
  at("graph-fit").addEventListener("click", () => fitGraph(0));

  Object.assign(fm, { drawLink, drawHead, drawAlerts, drawRuns, drawEpochs, drawMeters, drawGraph, drawSetup, drawEvents, themeGraph });
})();
