// Elements whose text has too little contrast with its ground.
(() => {
  const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const ground = (e) => { for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
  const bad = [];
  for (const e of document.querySelectorAll("body *")) {
    const words = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!words || !e.offsetParent || e.disabled) continue;
    if (e.closest("svg, .u-wrap, .hidden, [disabled], .skip, script")) continue;
    const a = light(parse(getComputedStyle(e).color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push([e.tagName, e.className, e.textContent.slice(0, 20), ratio.toFixed(2)]);
  }
  return bad;
})()
