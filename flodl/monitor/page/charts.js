// The charts: which lines belong together, what their points are, and how they are drawn.
(() => {
  const LIGHT = ["#2450b5", "#c2410c", "#0f7a53", "#8b31c7", "#8a6100", "#0e7490", "#b5175e", "#4d6b0a"];
  const DARK = ["#7ea9ff", "#ff9a5c", "#4fd69c", "#c79bff", "#efc050", "#5cd0e6", "#ff8abf", "#b3d651"];
  const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [4, 4], [12, 4]];
  const PARTS = /(^|[/_.\- ])(train|training|val|valid|validation|test|eval)(?=$|[/_.\- ])/gi;
  const RANK = /(^|[/_.\- ])rank\d+(?=$|[/_.\- ])/gi;

  const POWERS = Array.from({ length: 50 }, (_, i) => 2 ** i);

  // Without a choice of the reader (`smooth` is null) noisy lines are smoothed, so that they do not hide others.
  const AUTO_SMOOTH = 0.9;
  const settings = { axis: "step", wanted: "", smooth: null, log: false, find: "" };
  const charts = new Map();
  const hiddenLines = new Set();
  let zoom = null;

  const dark = () => {
    const theme = document.documentElement.dataset.theme;
    return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const palette = (index) => (dark() ? DARK : LIGHT)[index % LIGHT.length];

  // ---- numbers as text -------------------------------------------------------------------------
  function number(value) {
    if (value == null || Number.isNaN(value)) return "–";
    const size = Math.abs(value);
    if (value === 0) return "0";
    if (size < 1e-3 || size >= 1e7) return value.toExponential(2);
    if (Number.isInteger(value)) return value.toLocaleString("en");
    return size < 100 ? value.toFixed(4) : value.toLocaleString("en", { maximumFractionDigits: 1 });
  }
  function bytes(value) {
    for (const [unit, size, digits] of [["TB", 2 ** 40, 1], ["GB", 2 ** 30, 1], ["MB", 2 ** 20, 0], ["KB", 2 ** 10, 0]]) {
      if (Math.abs(value) >= size) return `${(value / size).toFixed(digits)} ${unit}`;
    }
    return `${Math.round(value)} B`;
  }
  function duration(seconds) {
    if (seconds == null || !isFinite(seconds) || seconds < 0) return "–";
    if (seconds < 1) return `${Math.floor(seconds * 1000)}ms`;
    if (seconds < 60) return `${seconds < 10 ? +seconds.toFixed(1) : Math.floor(seconds)}s`;
    const whole = Math.floor(seconds), two = (n) => String(n).padStart(2, "0");
    if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
    return `${Math.floor(whole / 3600)}h ${two(Math.floor((whole % 3600) / 60))}m`;
  }
  const short = (value) => Math.abs(value) >= 1e6 ? `${+(value / 1e6).toPrecision(3)}M`
    : Math.abs(value) >= 1e4 ? `${+(value / 1e3).toPrecision(3)}k` : String(+value.toPrecision(5));
  const axisText = (value) => (settings.axis === "time" ? duration(value) : short(value));
  const UNITS = {
    percent: { text: (v) => (v == null ? "–" : `${Math.round(v)} %`), tick: (v) => `${v}%` },
    bytes: { text: (v) => (v == null ? "–" : bytes(v)), tick: bytes },
    number: { text: number, tick: (v) => (v !== 0 && Math.abs(v) < 1e-3 ? v.toExponential(1).replace(".0e", "e") : short(v)) },
  };

  // ---- where a point stands --------------------------------------------------------------------
  function stepToEpoch(run) {
    const known = run.epochs.epoch.map((epoch, i) => [run.epochs.step[i], epoch + 1]).filter(([step]) => step != null);
    if (!known.length) return null;
    if (known[0][0] > 0) known.unshift([0, Math.max(0, known[0][1] - 1)]);
    return (step) => {
      let low = 0, high = known.length - 1;
      while (high - low > 1) { const mid = (low + high) >> 1; if (known[mid][0] <= step) low = mid; else high = mid; }
      const [a, b] = known.length > 1 ? [known[low], known[high]] : [[0, 0], known[0]];
      return b[0] === a[0] ? b[1] : a[1] + ((step - a[0]) * (b[1] - a[1])) / (b[0] - a[0]);
    };
  }
  function places(run, kind) {
    const mode = settings.axis;
    if (kind === "epoch") {
      if (mode === "step") return (_, i) => run.epochs.step[i];
      return mode === "time" ? (_, i) => run.epochs.time[i] - run.started : (_, i) => run.epochs.epoch[i] + 1;
    }
    if (mode === "time") return (series, i) => series.times[i] - run.started;
    if (mode === "step") return (series, i) => series.steps[i];
    const map = stepToEpoch(run);
    return map ? (series, i) => map(series.steps[i]) : () => null;
  }

  // ---- which lines there are -------------------------------------------------------------------
  const groupOf = (name) => name.replace(PARTS, "$1").replace(RANK, "$1ranks").replace(/[/_.\- ]+/g, " ").trim() || name;

  function wantedCharts() {
    const found = new Map();
    const add = (run, kind, name, series) => {
      const key = groupOf(name);
      if (settings.find && !name.toLowerCase().includes(settings.find)) return;
      if (!found.has(key)) found.set(key, { key, title: key, unit: "number", lines: [] });
      found.get(key).lines.push({ run, kind, name, series, id: `${kind}:${name}:${run.name}` });
    };
    for (const run of fm.visible()) {
      for (const [name, base] of Object.entries(run.data.metrics)) add(run, "step", name, (zoom && run.zoom?.[name]) || base);
      for (const [name, column] of Object.entries(run.epochs.metrics)) add(run, "epoch", name, { mean: column, low: null });
    }
    const many = fm.visible().length > 1;
    for (const chart of found.values()) {
      chart.many = many;
      // The mean of an epoch says nothing that its steps do not show, and there are many lines already.
      const steps = new Set(chart.lines.filter((line) => line.kind === "step").map((line) => line.id.slice(5)));
      if (many) chart.lines = chart.lines.filter((line) => line.kind === "step" || !steps.has(line.id.slice(6)));
      const names = [...new Set(chart.lines.map((line) => `${line.kind}:${line.name}`))];
      const both = new Set(chart.lines.map((line) => line.kind)).size > 1;
      for (const line of chart.lines) {
        const at = names.indexOf(`${line.kind}:${line.name}`);
        line.colour = many ? line.run.index : at;
        line.dash = many ? DASHES[at % DASHES.length] : [];
        line.label = line.name + (both && line.kind === "epoch" ? " (epoch)" : "") + (many ? ` · ${line.run.name}` : "");
      }
    }
    return [...found.values()];
  }

  // ---- points ----------------------------------------------------------------------------------
  function smoothed(values, weight) {
    let mean = 0, total = 0;
    return values.map((value) => {
      if (value == null) return value;
      mean = mean * weight + (1 - weight) * value;
      total = total * weight + (1 - weight);
      return mean / total;
    });
  }
  const smoothing = () => settings.smooth ?? AUTO_SMOOTH;
  // A line that often turns back hides others; a schedule or a clean curve does not, and would only be bent.
  function isNoisy(values) {
    let turns = 0, way = 0;
    for (let i = 1; i < values.length; i++) {
      const now = Math.sign(values[i] - values[i - 1]);
      if (now && way && now !== way) turns++;
      way = now || way;
    }
    return turns > values.length / 8;
  }
  function isSoft(chart, line, values) {
    if (line.kind !== "step" || !smoothing()) return false;
    return settings.smooth != null || (!chart.machine && isNoisy(values));
  }

  // Columns x, mean, low, high of a line, in order, without what has no place on the axis.
  function columns(line) {
    const { series } = line;
    const place = line.x || places(line.run, line.kind);
    const positive = (value) => (value == null || (settings.log && line.canLog && value <= 0) ? null : value);
    const rows = [];
    let last = -Infinity, ordered = true;
    for (let i = 0; i < series.mean.length; i++) {
      const x = place(series, i);
      if (x == null) continue;
      if (x < last) ordered = false;
      last = x;
      rows.push([x, positive(series.mean[i]), positive((series.low || series.mean)[i]), positive((series.high || series.mean)[i])]);
    }
    if (!ordered) rows.sort((a, b) => a[0] - b[0]);
    return [0, 1, 2, 3].map((at) => rows.map((row) => row[at]));
  }

  // What uPlot draws: per line its mean, and where it says more, a band or the raw line behind the smooth one.
  function build(chart) {
    const tables = [], series = [{}], bands = [];
    const found = chart.lines.map((line) => columns(line));
    const softened = chart.lines.map((line, i) => isSoft(chart, line, found[i][1]));
    // Pale raw lines come first, so that every smooth one lies above them; a band shows the raw values already.
    chart.lines.forEach((line, i) => {
      if (!softened[i] || line.series.low) return;
      tables.push([found[i][0], found[i][1]]);
      series.push({ stroke: palette(line.colour) + (dark() ? "4d" : "40"), width: 1, show: !hiddenLines.has(line.id), points: { show: false } });
    });
    chart.lines.forEach((line, i) => {
      const [x, mean, low, high] = found[i];
      const soft = softened[i];
      const shown = !hiddenLines.has(line.id);
      const stroke = palette(line.colour);
      const dots = line.kind === "epoch" && mean.length < 60;
      const table = [x, soft ? smoothed(mean, smoothing()) : mean];
      line.at = series.length;
      series.push({ label: line.label, stroke, width: line.kind === "epoch" || soft ? 2 : 1.6, dash: line.dash, show: shown, points: { show: dots || mean.length === 1, size: 5, fill: stroke } });
      if (line.series.low) {
        table.push(low, high);
        bands.push({ series: [series.length + 1, series.length], fill: stroke + "26" });
        series.push({ stroke: "transparent", show: shown, points: { show: false } }, { stroke: "transparent", show: shown, points: { show: false } });
      }
      tables.push(table);
    });
    return { data: tables.length ? uPlot.join(tables) : [[]], series, bands };
  }

  // ---- drawing ---------------------------------------------------------------------------------
  const FONT = "11px system-ui, -apple-system, Helvetica, Arial, sans-serif";
  const ruler = document.createElement("canvas").getContext("2d");
  function textWidth(text) {
    ruler.font = FONT;
    return ruler.measureText(text).width;
  }

  function options(chart, holder, built) {
    const ink = css("--soft"), grid = { stroke: css("--grid"), width: 1 };
    const unit = UNITS[chart.unit];
    const axis = { stroke: ink, font: FONT, grid, ticks: { ...grid, size: 5 } };
    const x = chart.machine ? (v) => duration(v) : axisText;
    return {
      width: Math.max(holder.clientWidth, 120), height: 210,
      legend: { show: false },
      // Half of the last tick's text is right of the plot.
      padding: [8, (u) => Math.max(24, Math.ceil(textWidth(x(u.scales.x.max ?? 0)) / 2) + 4), 0, 0],
      focus: { alpha: 1 },
      cursor: {
        drag: { x: true, y: false, setScale: false },
        sync: { key: chart.machine ? "machine" : "metrics" },
        points: { size: 7 },
        bind: { dblclick: () => () => setZoom(null) },
      },
      scales: {
        x: { time: false, range: (u, low, high) => (zoom && !chart.machine ? [zoom.min, zoom.max] : low === high ? [low - 0.5, high + 0.5] : [low, high]) },
        y: chart.unit === "percent" ? { range: [0, 100] } : chart.unit === "bytes" ? { range: (u, low, high) => [0, high * 1.08 || 1] }
          : settings.log ? { distr: 3 } : {},
      },
      axes: [
        { ...axis, size: 28, gap: 3, space: 70, values: (u, ticks) => ticks.map(x) },
        { ...axis, size: 58, gap: 4, space: 34, ...(chart.unit === "bytes" ? { incrs: POWERS } : {}), values: (u, ticks) => ticks.map((v) => (v == null ? "" : unit.tick(v))) },
      ],
      series: built.series,
      bands: built.bands,
      hooks: {
        setCursor: [() => legendValues(chart.key)],
        setSelect: [(u) => {
          if (u.select.width > 4 && !chart.machine) setZoom({ min: u.posToVal(u.select.left, "x"), max: u.posToVal(u.select.left + u.select.width, "x") });
          u.setSelect({ width: 0, height: 0, left: 0, top: 0 }, false);
        }],
      },
    };
  }

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child != null));
    return element;
  };

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const card = charts.get(entry.target.dataset.key);
      if (!card) continue;
      card.near = entry.isIntersecting;
      if (card.near && card.stale) draw(card);
    }
  }, { rootMargin: "300px" });
  const sized = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const card = charts.get(entry.target.parentElement?.dataset.key);
      if (card?.plot && entry.contentRect.width > 0) card.plot.setSize({ width: Math.max(entry.contentRect.width, 120), height: 210 });
    }
  });

  function newCard(key, parent) {
    const holder = make("div", { class: "plot", tabindex: 0, role: "group", "aria-roledescription": "chart", "aria-keyshortcuts": "ArrowLeft ArrowRight + - Escape", onkeydown: (event) => keys(card, event) });
    const heading = make("h3");
    const toggle = make("button", { type: "button", "aria-expanded": "false", onclick: () => { card.tabled = !card.tabled; draw(card); } }, "Table");
    const legend = make("div", { class: "legend" });
    const table = make("div", { class: "scroll", tabindex: 0, role: "region", hidden: true });
    const spoken = make("output", { class: "hidden", "aria-live": "polite" });
    const figure = make("figure", { "data-key": key }, make("figcaption", {}, heading, toggle), holder, table, legend, spoken);
    const card = { key, figure, holder, heading, toggle, legend, table, spoken, near: true, stale: true, signature: "" };
    parent.append(figure);
    seen.observe(figure);
    sized.observe(holder);
    charts.set(key, card);
    return card;
  }

  function draw(card) {
    const { chart } = card;
    card.stale = false;
    card.heading.textContent = chart.title;
    card.holder.hidden = card.tabled;
    card.table.hidden = !card.tabled;
    card.toggle.textContent = card.tabled ? "Chart" : "Table";
    card.toggle.setAttribute("aria-expanded", String(Boolean(card.tabled)));
    card.toggle.setAttribute("aria-label", `${chart.title} as a ${card.tabled ? "chart" : "table"}`);
    const built = build(chart);
    const signature = JSON.stringify([chart.lines.map((line) => [line.id, line.colour, line.dash]), built.series.map((each) => [each.show, each.points?.show, each.width]), settings.log, dark(), chart.machine || settings.axis]);
    card.data = built.data;
    if (card.tabled) { fillTable(card); }
    if (!card.tabled || card.plot) {
      if (!card.plot || card.signature !== signature) {
        card.plot?.destroy();
        card.plot = new uPlot(options(chart, card.holder, built), built.data, card.holder);
        card.plot.root.setAttribute("aria-hidden", "true");
      } else {
        card.plot.setData(built.data);
      }
      card.signature = signature;
    }
    fillLegend(card);
    const summary = chart.lines.map((line) => `${line.label} ${lastText(card, line)}`).join(", ");
    card.holder.setAttribute("aria-label", `${chart.title}: ${summary}. Arrow keys read values, plus and minus zoom.`);
    card.table.setAttribute("aria-label", `${chart.title} as a table`);
  }

  function lastText(card, line) {
    const values = line.series.mean;
    let at = values.length - 1;
    while (at > 0 && values[at] == null) at--;
    return UNITS[card.chart.unit].text(at >= 0 ? values[at] : null);
  }

  function keyOf(card, line) {
    const value = make("b");
    const button = make("button", { type: "button", onclick: () => { if (!hiddenLines.delete(line.id)) hiddenLines.add(line.id); draw(card); } });
    return { button, value };
  }
  function markOf(colour, line) {
    const holder = make("span", { class: "mark-of" });
    holder.innerHTML = `<svg viewBox="0 0 18 8" aria-hidden="true"><path d="M0 4h18" stroke="${colour}" stroke-width="${line.kind === "epoch" ? 3 : 2}" stroke-dasharray="${line.dash.join(" ")}"/></svg>`;
    return holder;
  }

  // Runs below each other and metrics beside each other: as many lines of text as there are runs.
  function keyTable(card) {
    const { lines } = card.chart;
    const shapes = [...new Map(lines.map((line) => [`${line.kind}:${line.name}`, line])).values()];
    const runs = [...new Set(lines.map((line) => line.run))];
    const cell = (run, shape) => {
      const at = lines.findIndex((line) => line.run === run && line.kind === shape.kind && line.name === shape.name);
      if (at < 0) return make("td");
      const { button, value } = card.keys[at];
      button.setAttribute("aria-label", lines[at].label);
      button.append(value);
      return make("td", {}, button);
    };
    const title = (shape) => shape.label.slice(0, -(shape.run.name.length + 3));
    return make("table", {},
      shapes.length < 2 ? null : make("thead", {}, make("tr", {}, make("td"), ...shapes.map((shape) => make("th", { scope: "col" }, markOf(css("--soft"), shape), title(shape))))),
      make("tbody", {}, ...runs.map((run) => {
        const swatch = make("span", { class: "swatch" });
        swatch.style.background = palette(run.index);
        return make("tr", {}, make("th", { scope: "row" }, swatch, run.name), ...shapes.map((shape) => cell(run, shape)));
      })));
  }

  function fillLegend(card) {
    const { chart, legend } = card;
    const ids = chart.lines.map((line) => line.id + line.colour + dark()).join("|");
    if (legend.dataset.ids !== ids) {
      legend.dataset.ids = ids;
      card.keys = chart.lines.map((line) => keyOf(card, line));
      legend.classList.toggle("many", Boolean(chart.many));
      if (chart.many) legend.replaceChildren(keyTable(card));
      else {
        chart.lines.forEach((line, i) => card.keys[i].button.append(markOf(palette(line.colour), line), make("span", {}, line.label), card.keys[i].value));
        legend.replaceChildren(...card.keys.map((key) => key.button));
      }
    }
    chart.lines.forEach((line, i) => card.keys[i].button.setAttribute("aria-pressed", String(!hiddenLines.has(line.id))));
    legendValues(card.key);
  }

  function legendValues(key) {
    const card = charts.get(key);
    if (!card?.plot) return;
    const at = card.plot.cursor.idx;
    card.chart.lines.forEach((line, i) => {
      const value = card.keys?.[i]?.value;
      if (!value) return;
      let text = lastText(card, line);
      if (at != null) {
        const column = card.data[line.at];
        let near = at;
        while (near > 0 && column[near] == null) near--;
        text = UNITS[card.chart.unit].text(column[near]);
      }
      if (value.textContent !== text) value.textContent = text;
    });
  }

  function fillTable(card) {
    const { data, chart } = card;
    const every = Math.max(1, Math.ceil(data[0].length / 60));
    const rows = data[0].map((x, i) => i).filter((i) => i % every === 0 || i === data[0].length - 1).reverse();
    const x = chart.machine ? duration : axisText;
    const name = chart.machine ? "time" : settings.axis;
    card.table.replaceChildren(make("table", {},
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, name), ...chart.lines.map((line) => make("th", { scope: "col" }, line.label)))),
      make("tbody", {}, ...rows.map((i) => make("tr", {}, make("th", { scope: "row" }, x(data[0][i])), ...chart.lines.map((line) => make("td", {}, UNITS[chart.unit].text(data[line.at][i] ?? null))))))));
  }

  // ---- keys and zoom ---------------------------------------------------------------------------
  function keys(card, event) {
    const { plot } = card;
    if (!plot || event.ctrlKey || event.metaKey || event.altKey) return;
    const xs = card.data[0];
    let at = plot.cursor.idx ?? xs.length - 1;
    const { min, max } = plot.scales.x;
    const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -xs.length, End: xs.length }[event.key];
    if (move) {
      at = Math.min(xs.length - 1, Math.max(0, at + move));
      plot.setCursor({ left: plot.valToPos(xs[at], "x"), top: plot.over.clientHeight / 2 });
      const values = card.chart.lines.map((line, i) => `${line.label} ${card.keys[i].value.textContent}`);
      card.spoken.textContent = `${card.chart.machine ? duration(xs[at]) : axisText(xs[at])}: ${values.join(", ")}`;
    } else if ((event.key === "+" || event.key === "-") && !card.chart.machine) {
      const centre = plot.cursor.idx != null ? xs[at] : (min + max) / 2;
      const factor = event.key === "+" ? 0.5 : 2;
      setZoom({ min: centre - (centre - min) * factor, max: centre + (max - centre) * factor });
    } else if (event.key === "Escape") setZoom(null);
    else return;
    event.preventDefault();
  }

  let asked = 0;
  async function setZoom(next) {
    zoom = next;
    document.getElementById("unzoom").disabled = !zoom;
    for (const run of fm.runs.values()) run.zoom = null;
    fm.mark("metrics");
    if (!zoom) return;
    const mine = ++asked;
    for (const run of fm.visible()) {
      const place = places(run, "step");
      let from = Infinity, to = -Infinity;
      for (const series of Object.values(run.data.metrics)) {
        for (let i = 0; i < series.steps.length; i++) {
          const x = place(series, i);
          if (x == null) continue;
          if (x <= zoom.min || from === Infinity) from = Math.min(from === Infinity ? series.steps[i] : Math.max(from, series.steps[i]), series.steps[i]);
          if (x >= zoom.max) { to = Math.max(to, series.steps[i]); break; }
          if (i === series.steps.length - 1) to = Math.max(to, series.steps[i]);
        }
      }
      if (from > to) continue;
      const found = await fm.zoomed(run, from, to);
      if (mine !== asked || !zoom) return;
      run.zoom = found;
      fm.mark("metrics");
    }
  }

  // ---- all of it -------------------------------------------------------------------------------
  function chooseAxis() {
    const runs = fm.visible();
    const steps = runs.some((run) => Object.keys(run.data.metrics).length);
    const epochs = runs.some((run) => run.epochs.epoch.length);
    const usable = { step: steps, epoch: epochs, time: true };
    const wanted = settings.wanted && usable[settings.wanted] ? settings.wanted : steps ? "step" : "epoch";
    settings.axis = wanted;
    for (const input of document.querySelectorAll("#axis input")) {
      input.disabled = !usable[input.value];
      input.checked = input.value === wanted;
    }
  }

  function place(parent, wanted) {
    const keep = new Set(wanted.map((chart) => chart.id));
    for (const card of [...charts.values()]) {
      if (card.figure.parentElement === parent && !keep.has(card.key)) {
        card.plot?.destroy();
        seen.unobserve(card.figure);
        card.figure.remove();
        charts.delete(card.key);
      }
    }
    wanted.forEach((chart, i) => {
      const card = charts.get(chart.id) || newCard(chart.id, parent);
      card.chart = Object.assign(chart, { key: chart.id });
      if (parent.children[i] !== card.figure) parent.insertBefore(card.figure, parent.children[i] || null);
      card.stale = true;
      if (card.near) draw(card);
    });
  }

  function drawMetrics() {
    chooseAxis();
    document.getElementById("smooth").value = smoothing();
    document.getElementById("smooth-v").textContent = settings.smooth == null ? "auto" : smoothing();
    const wanted = wantedCharts();
    for (const chart of wanted) {
      chart.id = `metrics:${chart.key}`;
      for (const line of chart.lines) line.canLog = true;
    }
    document.getElementById("no-metrics").hidden = wanted.length > 0;
    place(document.getElementById("metric-charts"), wanted);
  }

  const MACHINE = [
    ["Load", "percent", [["cpu", "CPU"], ["gpu", "GPU"]]],
    ["Memory", "bytes", [["ram_used", "RAM"], ["process_ram", "this process"], ["vram_used", "VRAM"]]],
    ["Power", "number", [["power", "W"]]],
  ];
  function drawMachine() {
    const run = fm.focused();
    const known = Boolean(run) && Object.keys(run.data.resources).length > 0;
    document.getElementById("machine").hidden = !known;
    if (!known) return;
    const wanted = MACHINE.map(([title, unit, names]) => ({
      id: `machine:${title}`, title, unit, machine: true,
      lines: names.filter(([name]) => run.data.resources[name]).map(([name, label], i) => ({
        run, kind: "step", name, label, colour: i, dash: [], id: `machine:${name}`, series: { ...run.data.resources[name], low: null },
        x: (series, at) => series.times[at] - run.started,
      })),
    })).filter((chart) => chart.lines.length);
    place(document.getElementById("machine-charts"), wanted);
  }

  Object.assign(fm, { settings, charts, drawMetrics, drawMachine, setZoom, number, bytes, duration, make, palette, dark, places });
})();
