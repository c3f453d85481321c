// Draws the series on a canvas; the legend switches series, hovering names the nearest epoch.
"use strict";
(() => {
  const colours = ["#4470c0", "#d95f0e", "#2f8f5b", "#8a3ffc", "#b9821a", "#c23a5a", "#1f7f92", "#7f8a96"];
  const series = JSON.parse(document.getElementById("data").textContent)
    .map((each, i) => ({ ...each, colour: colours[i % colours.length], dash: i >= colours.length, on: true }));
  const canvas = document.getElementById("chart"), pen = canvas.getContext("2d");
  const log = document.getElementById("log"), point = document.getElementById("point");
  const left = 64, right = 16, top = 12, bottom = 30;
  let hover = -1;

  const legend = document.getElementById("legend");
  for (const each of series) {
    const button = document.createElement("button");
    button.textContent = each.name;
    button.style.borderColor = each.colour;
    button.setAttribute("aria-pressed", "true");
    button.onclick = () => {
      each.on = !each.on;
      button.setAttribute("aria-pressed", String(each.on));
      draw();
    };
    legend.appendChild(button);
  }

  const usable = (value) => value !== null && (!log.checked || value > 0);
  const scaled = (value) => (log.checked ? Math.log10(value) : value);
  const text = (value) => (value === 0 ? "0" : Math.abs(value) < 1e-3 ? value.toExponential(2)
    : Math.abs(value) < 100 ? value.toFixed(4) : value.toFixed(2));

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const ink = getComputedStyle(document.body).color;
    const shown = series.filter((each) => each.on);
    const values = shown.flatMap((each) => each.values).filter(usable).map(scaled);
    const epochs = Math.max(1, ...shown.map((each) => each.values.length));
    if (!values.length) return;
    let low = Math.min(...values), high = Math.max(...values);
    if (low === high) { low -= 0.5; high += 0.5; }
    const x = (i) => left + (epochs > 1 ? i / (epochs - 1) : 0.5) * (width - left - right);
    const y = (v) => top + (1 - (scaled(v) - low) / (high - low)) * (height - top - bottom);
    pen.font = "11px Helvetica,Arial,sans-serif";
    pen.fillStyle = ink;
    pen.strokeStyle = ink;
    for (let i = 0; i <= 5; i++) {
      const value = low + ((high - low) * i) / 5, at = top + (1 - i / 5) * (height - top - bottom);
      pen.globalAlpha = 0.15;
      pen.beginPath(); pen.moveTo(left, at); pen.lineTo(width - right, at); pen.stroke();
      pen.globalAlpha = 1;
      pen.textAlign = "right";
      pen.fillText(text(log.checked ? 10 ** value : value), left - 6, at + 4);
    }
    const every = Math.max(1, Math.ceil(epochs / 12));
    pen.textAlign = "center";
    for (let i = 0; i < epochs; i += every) pen.fillText(String(i + 1), x(i), height - 10);
    for (const each of shown) {
      pen.strokeStyle = pen.fillStyle = each.colour;
      pen.lineWidth = 2;
      pen.setLineDash(each.dash ? [6, 4] : []);
      pen.beginPath();
      let down = false;
      each.values.forEach((value, i) => {
        if (!usable(value)) { down = false; return; }
        if (down) pen.lineTo(x(i), y(value)); else pen.moveTo(x(i), y(value));
        down = true;
      });
      pen.stroke();
      pen.setLineDash([]);
      each.values.forEach((value, i) => {
        if (usable(value) && (i === hover || epochs <= 40)) {
          pen.beginPath(); pen.arc(x(i), y(value), i === hover ? 4 : 2.5, 0, 7); pen.fill();
        }
      });
    }
    const parts = shown.filter((each) => hover >= 0 && each.values[hover] != null)
      .map((each) => `${each.name} ${text(each.values[hover])}`);
    point.textContent = parts.length ? `epoch ${hover + 1}: ${parts.join(", ")}` : "";
    canvas.onmousemove = (event) => {
      const share = (event.offsetX - left) / (width - left - right);
      const next = Math.min(epochs - 1, Math.max(0, Math.round(share * (epochs - 1))));
      if (next !== hover) { hover = next; draw(); }
    };
  }
  canvas.onmouseleave = () => { hover = -1; draw(); };
  log.onchange = draw;
  window.onresize = draw;
  draw();
})();
