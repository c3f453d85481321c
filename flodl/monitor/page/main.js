// Puts it together: what changed is drawn, what is clicked takes effect.
(() => {
  const at = (id) => document.getElementById(id);
  const remembered = (() => { try { return JSON.parse(localStorage.getItem("flodl-monitor")) || {}; } catch { return {}; } })();
  const remember = () => { try { localStorage.setItem("flodl-monitor", JSON.stringify({ theme: document.documentElement.dataset.theme, smooth: fm.settings.smooth, log: fm.settings.log })); } catch { /* not allowed here */ } };

  // Charts are redrawn a few times per second at most, whatever arrives.
  const EVERY_MS = 150;
  let lastCharts = 0, later = 0;
  const wanted = new Set();
  function drawCharts(what) {
    for (const each of what) wanted.add(each);
    const wait = lastCharts + EVERY_MS - performance.now();
    if (wait > 0) { later ||= setTimeout(() => { later = 0; drawCharts([]); }, wait); return; }
    lastCharts = performance.now();
    const all = wanted.has("all");
    if (all || wanted.has("metrics") || wanted.has("epochs")) fm.drawMetrics();
    if (all || wanted.has("resources")) { fm.drawMachine(); fm.drawMeters(); }
    wanted.clear();
    fm.drawn = (fm.drawn || 0) + 1;
  }

  fm.listen((what) => {
    const any = (...names) => what.has("all") || names.some((name) => what.has(name));
    if (any("link", "about")) fm.drawLink();
    if (any("about", "epochs")) { fm.drawHead(); fm.drawRuns(); }
    if (any("about")) { fm.drawSetup(); fm.drawGraph(); fm.drawEvents(); }
    if (any("epochs")) fm.drawEpochs();
    if (any("alerts")) fm.drawAlerts();
    if (any("events")) fm.drawEvents();
    if (any("metrics", "epochs", "resources")) drawCharts(what);
  });
  setInterval(() => { if (!fm.state.archive && !document.hidden) fm.drawHead(); }, 1000);

  function setTheme(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    const name = theme === "dark" ? "Dark" : theme === "light" ? "Light" : "Auto";
    at("theme").textContent = `◐ ${name}`;
    at("theme").setAttribute("aria-label", `Theme: ${name}. Change it`);
    fm.themeGraph();
    fm.mark("all");
  }
  at("theme").addEventListener("click", () => {
    const order = ["", "dark", "light"];
    setTheme(order[(order.indexOf(document.documentElement.dataset.theme || "") + 1) % 3]);
    remember();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(document.documentElement.dataset.theme || ""));

  for (const input of document.querySelectorAll("#axis input")) {
    input.addEventListener("change", () => { fm.settings.wanted = input.value; fm.setZoom(null); });
  }
  at("smooth").addEventListener("input", () => {
    fm.settings.smooth = +at("smooth").value;
    remember();
    fm.mark("metrics");
  });
  at("log").addEventListener("change", () => { fm.settings.log = at("log").checked; remember(); fm.mark("metrics"); });
  at("find").addEventListener("input", () => { fm.settings.find = at("find").value.toLowerCase(); fm.mark("metrics"); });
  at("unzoom").addEventListener("click", () => fm.setZoom(null));

  fm.settings.smooth = remembered.smooth ?? null;
  at("log").checked = fm.settings.log = Boolean(remembered.log);
  fm.drawLink();
  fm.start();
  setTheme(remembered.theme || "");
  window.fm = fm;
})();
