// What is known about the runs, kept up to date by the event stream.
const fm = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const runs = new Map();
  const listeners = [];
  const state = { runs, archive: Boolean(data), link: data ? "archive" : "connecting", token: "" };
  const changed = new Set();
  let scheduled = false;

  // Everything that changed within a frame is drawn once.
  function mark(what) {
    changed.add(what);
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      const now = new Set(changed);
      changed.clear();
      for (const listener of listeners) listener(now);
    });
  }

  const emptySeries = () => ({ steps: [], times: [], mean: [], low: null, high: null, per: 1, count: 0, last: null });

  function takeSnapshot(name, shot) {
    const old = runs.get(name);
    const run = {
      name, ...shot,
      shown: old ? old.shown : true,
      index: old ? old.index : runs.size,
      data: { metrics: {}, resources: {} },
      waiting: { metrics: null, resources: null },
      received: Date.now() / 1000,
    };
    runs.set(name, run);
    for (const group of ["metrics", "resources"]) {
      for (const [series, count] of Object.entries(shot.series[group])) {
        run.data[group][series] = emptySeries();
        if (count) run.data[group][series].missing = true;
      }
    }
    return run;
  }

  function query(run, group, extra = {}) {
    const parts = new URLSearchParams({ run: run.name, group, points: 1500, ...extra });
    if (state.token) parts.set("token", state.token);
    return "api/series?" + parts;
  }

  // Messages that arrive while an answer is under way are applied to it again; counts tell which are new.
  async function load(run, group) {
    if (run.waiting[group]) return;
    const late = run.waiting[group] = [];
    try {
      const answer = await fetch(query(run, group));
      if (!answer.ok) throw new Error(answer.status);
      const found = await answer.json();
      if (runs.get(run.name) !== run) return;
      for (const [name, series] of Object.entries(found)) {
        run.data[group][name] = { ...emptySeries(), ...series };
      }
      run.waiting[group] = null;
      for (const message of late) points(run, message);
    } catch {
      run.waiting[group] = null;
      setTimeout(() => refresh(run), 2000);
    }
    mark(group);
  }

  function refresh(run) {
    if (state.archive || runs.get(run.name) !== run) return;
    if (!run.shown && run !== focused()) return;
    for (const group of ["metrics", "resources"]) {
      if (Object.values(run.data[group]).some((each) => each.missing)) load(run, group);
    }
  }

  function points(run, message) {
    const group = message.group;
    if (run.waiting[group]) { run.waiting[group].push(message); return; }
    let gap = false;
    message.names.forEach((name, i) => {
      const series = run.data[group][name] ||= emptySeries();
      const before = message.before[i];
      if (before + message.count <= series.count) return;
      if (before !== series.count || series.mean.length > 5000) { series.missing = gap = true; return; }
      const summed = Boolean(message.low);
      if (summed && !series.low) { series.low = [...series.mean]; series.high = [...series.mean]; }
      series.steps.push(...message.steps);
      series.times.push(...message.times);
      series.mean.push(...message.mean[i]);
      if (series.low) {
        series.low.push(...(summed ? message.low[i] : message.mean[i]));
        series.high.push(...(summed ? message.high[i] : message.mean[i]));
      }
      series.count += message.count;
      series.last = Math.max(series.last ?? -Infinity, message.steps[message.steps.length - 1]);
    });
    if (gap) refresh(run);
    mark(group);
  }

  function addEpoch(run, epoch) {
    const all = run.epochs;
    if (epoch.index < all.epoch.length) return;
    const rows = all.epoch.length;
    for (const key of ["epoch", "duration", "time", "step", "eta"]) all[key].push(epoch[key]);
    for (const part of ["metrics", "resources"]) {
      for (const name of Object.keys(epoch[part])) all[part][name] ||= Array(rows).fill(null);
      for (const [name, column] of Object.entries(all[part])) column.push(epoch[part][name] ?? null);
    }
    run.received = Date.now() / 1000;
    mark("epochs");
  }

  const handlers = {
    points: (run, message) => points(run, message),
    epoch: (run, message) => addEpoch(run, message),
    about: (run, message) => { Object.assign(run, message); run.name = message.run; mark("about"); },
    start: (run) => { run.status = "running"; mark("about"); },
    resume: (run) => { run.status = "running"; mark("about"); },
    status: (run, message) => { run.status = message.status; mark("about"); },
    finish: (run) => { run.status = "finished"; mark("about"); },
    alert: (run, message) => { run.alerts.push(message); state.fresh = { run, message }; mark("alerts"); },
    event: (run, message) => { run.events.push(message); mark("events"); },
  };

  let source = null;

  function connect() {
    const parts = state.token ? "?" + new URLSearchParams({ token: state.token }) : "";
    source = new EventSource("events" + parts);
    source.onopen = () => { state.link = "live"; mark("link"); };
    source.onerror = () => {
      state.link = "reconnecting";
      mark("link");
      // The browser comes back by itself, unless the answer was a refusal.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
    };
    source.addEventListener("snapshot", (event) => {
      const known = JSON.parse(event.data).runs;
      for (const name of [...runs.keys()]) if (!(name in known)) runs.delete(name);
      for (const [name, shot] of Object.entries(known)) refresh(takeSnapshot(name, shot));
      mark("all");
    });
    source.addEventListener("run", (event) => {
      const message = JSON.parse(event.data);
      refresh(takeSnapshot(message.run, message.snapshot));
      mark("all");
    });
    // An earlier stretch of the run is recorded again: begin anew, without the number of the last message.
    source.addEventListener("reset", () => { source.close(); connect(); });
    for (const [kind, handle] of Object.entries(handlers)) {
      source.addEventListener(kind, (event) => {
        const message = JSON.parse(event.data);
        const run = runs.get(message.run);
        if (run) handle(run, message);
        if (kind === "finish" && [...runs.values()].every((each) => each.status === "finished")) {
          source.close();
          state.link = "ended";
          mark("link");
        }
      });
    }
  }

  function start() {
    if (state.archive) {
      for (const [name, shot] of Object.entries(data.runs)) {
        const run = takeSnapshot(name, shot);
        for (const group of ["metrics", "resources"]) {
          for (const [series, values] of Object.entries(data.series[name][group])) {
            run.data[group][series] = { ...emptySeries(), ...values };
          }
        }
        run.drawing = data.pictures[name] || "";
      }
      mark("all");
      return;
    }
    const address = new URL(location.href);
    state.token = address.searchParams.get("token") || sessionStorage.getItem("flodl-token") || "";
    if (address.searchParams.has("token")) {
      sessionStorage.setItem("flodl-token", state.token);
      address.searchParams.delete("token");
      history.replaceState(null, "", address);
    }
    connect();
  }

  // The values between two steps, finer than what is shown of the whole.
  async function zoomed(run, from, to) {
    if (state.archive) return null;
    const answer = await fetch(query(run, "metrics", { from, to, points: 2000 }));
    return answer.ok ? answer.json() : null;
  }

  async function control(run, action) {
    const answer = await fetch("api/control", {
      method: "POST",
      headers: { "X-Flodl-Token": state.token, "Content-Type": "application/json" },
      body: JSON.stringify({ run: run.name, action }),
    });
    return answer.ok ? "" : answer.text();
  }

  const visible = () => [...runs.values()].filter((run) => run.shown);

  // The run that everything but the charts is about: the one that was chosen, at first one that is running.
  let chosen = "";
  function focused() {
    if (!runs.has(chosen)) {
      const all = [...runs.values()];
      chosen = (all.find((run) => run.status === "running") || visible()[0] || all[0])?.name ?? "";
    }
    return runs.get(chosen);
  }
  function focus(name) {
    chosen = name;
    refresh(focused());
    mark("all");
  }
  const listen = (listener) => listeners.push(listener);
  return { state, runs, visible, focused, focus, listen, mark, start, refresh, zoomed, control };
})();
