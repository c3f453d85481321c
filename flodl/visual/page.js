// Opens and closes nested graphs in place, pans, zooms, searches, and tells all that is known about a step.
// The order of boxes never changes: a box that grows pushes its layer apart and the layers below it down.
"use strict";
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const scenes = JSON.parse(document.getElementById("fd-data").textContent);
  const root = document.getElementById("fd-root");
  const svg = document.getElementById("fd-svg");
  const HEADER = 28, PAD = 12;
  const view = { x: 0, y: 0, scale: 1 };

  const make = (name, attributes, parent) => {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (parent) parent.appendChild(element);
    return element;
  };

  // Layers follow each other along the direction of a scene, and their boxes lie side by side across it.
  const across = (scene, item) => scene.size[item][scene.right ? 1 : 0];
  const along = (scene, item) => scene.size[item][scene.right ? 0 : 1];
  const at = (scene, one, two) => (scene.right ? `${two} ${one}` : `${one} ${two}`);
  const on = (scene) => (scene.right ? "H" : "V");
  const arrow = (scene, one, two) => `M${at(scene, one, two)}${scene.right ? "l-7 -3.5v7z" : "l-3.5 -7h7z"}`;

  // With `tensors`, closed boxes have a line for each parameter and buffer.
  let tensors = false;
  const shown = (box) => (tensors && box.full) || box;

  // Sizes, from the inside out.
  const measure = (scene) => {
    const size = scene.boxes.map((box) => {
      if (box.inner < 0 || !box.open) return [shown(box).w, shown(box).h];
      const inner = measure(scenes[box.inner]);
      return [Math.max(box.header, inner[0] + 2 * PAD), inner[1] + HEADER + PAD];
    });
    scene.size = size;
    const x = scene.centres.slice();
    scene.tops = [];
    scene.heights = [];
    let begin = 0, left = Infinity, right = -Infinity;
    scene.rows.forEach((row, index) => {
      const extra = (item) => (item < size.length ? across(scene, item) - scene.boxes[item].base : 0);
      let shift = -row.reduce((sum, item) => sum + extra(item), 0) / 2;
      for (const item of row) {
        x[item] += shift + extra(item) / 2;
        shift += extra(item);
        const half = item < size.length ? across(scene, item) / 2 : 6;
        left = Math.min(left, x[item] - half);
        right = Math.max(right, x[item] + half);
      }
      const height = Math.max(0, ...row.map((item) => (item < size.length ? along(scene, item) : 0)));
      scene.tops.push(begin);
      scene.heights.push(height);
      begin += height + scene.gaps[index];
    });
    left -= 12 * scene.carried.length;
    scene.x = x.map((value) => value - left);
    const length = begin - (scene.gaps[scene.gaps.length - 1] || 0);
    scene.extent = scene.right ? [length, right - left] : [right - left, length];
    return scene.extent;
  };

  const rowsOf = (scene) => {
    const found = [];
    scene.rows.forEach((row, index) => row.forEach((item) => (found[item] = index)));
    return found;
  };

  const topOf = (scene, row, item) =>
    scene.tops[row] + (scene.heights[row] - along(scene, item)) / 2;

  const path = (scene, rows, way, port, first, drop) => {
    const target = way[way.length - 1];
    const end = scene.x[target] + port;
    const y = topOf(scene, rows[target], target) + drop;
    if (rows[target] - rows[way[0]] !== way.length - 1) return `M${at(scene, end, y - drop - 18)}${on(scene)}${y}`;
    const from = rows[way[first]];
    const bottom = first ? scene.tops[from] + scene.heights[from] : topOf(scene, from, way[0]) + along(scene, way[0]);
    let text = `M${at(scene, scene.x[way[first]], bottom)}`;
    for (let i = first; i + 1 < way.length; i++) {
      const start = scene.tops[rows[way[i]]] + scene.heights[rows[way[i]]];
      const stop = scene.tops[rows[way[i + 1]]];
      const to = i + 2 === way.length ? end : scene.x[way[i + 1]];
      const middle = (start + stop) / 2;
      const bend = [[scene.x[way[i]], middle], [to, middle], [to, stop]].map((point) => at(scene, ...point));
      text += `${on(scene)}${start}C${bend.join(" ")}`;
    }
    return text + `${on(scene)}${y}`;
  };

  const fact = (box, wanted) => box.facts.find(([word]) => word === wanted)?.[1] || "";
  const output = (box) => fact(box, "output");
  const titleOf = (box) => `${box.name} ${fact(box, "path")}`.trim();

  const draw = (scene, parent) => {
    const rows = rowsOf(scene);
    scene.ways.forEach((way, number) => {
      const port = scene.ports[number], target = way[way.length - 1], stub = scene.stubs[number];
      if (stub === "") return;
      const drop = scene.ends[number], y = topOf(scene, rows[target], target) + drop;
      const d = path(scene, rows, way, port, scene.starts[number], drop);
      make("path", { class: "fd-e", d }, parent);
      // A thin line is hard to hit: a wide one that is not seen names the value, and leads to where it is made.
      const value = scene.boxes[way[0]], wide = make("path", { class: "fd-w", d }, parent);
      make("title", {}, wide).textContent = `${titleOf(value)} ${output(value)}`.trim();
      wide.addEventListener("click", () => { if (!moved) select(scene, way[0]); });
      make("path", { class: "fd-a", d: arrow(scene, scene.x[target] + port, y) }, parent);
      if (stub) {
        const place = scene.right ? { x: y - drop - 21, y: scene.x[target] + port + 4, style: "text-anchor:end" }
          : { x: scene.x[target] + port, y: y - drop - 21 };
        make("text", { class: "fd-m", ...place }, parent).textContent = stub;
      }
    });
    scene.carried.forEach(([source, target, name], number) => {
      // As in the still picture: out behind its layer, back in a lane beside everything, in from before.
      const below = scene.tops[rows[source]] + scene.heights[rows[source]] + 9;
      const above = scene.tops[rows[target]] - 9, lane = 12 * number + 6, width = across(scene, target);
      const back = scene.x[target] - width / 2 + Math.min(width / 4, 14);
      const bottom = topOf(scene, rows[source], source) + along(scene, source);
      const top = topOf(scene, rows[target], target);
      const corners = [[scene.x[source], bottom], [scene.x[source], below], [lane, below], [lane, above], [back, above]];
      const d = `M${[...corners, [back, top]].map((point) => at(scene, ...point)).join("L")}`;
      const way = make("path", { class: "fd-c", d }, parent);
      make("title", {}, way).textContent = `state ${name}, for the next call`;
      make("path", { class: "fd-d", d: arrow(scene, back, top) }, parent);
    });
    scene.boxes.forEach((box, index) => {
      const [width, height] = scene.size[index];
      const place = `translate(${at(scene, scene.x[index] - across(scene, index) / 2, topOf(scene, rows[index], index))})`;
      const group = make("g", { class: `fd-${box.role}`, transform: place }, parent);
      box.element = group;
      const folds = box.inner >= 0, open = folds && box.open;
      group.classList.add("fd-step");
      if (folds) group.classList.add("fd-fold");
      if (!open) group.innerHTML = shown(box).markup;
      // A button cannot hold the buttons of the steps inside, so the frame of an open box is its button.
      const knob = open ? make("rect", { class: "fd-s", width, height, rx: 9 }, group) : group;
      box.knob = knob;
      knob.setAttribute("tabindex", "0");
      knob.setAttribute("role", "button");
      knob.setAttribute("aria-label", box.name);
      if (folds) knob.setAttribute("aria-expanded", String(open));
      const act = (event) => {
        event.stopPropagation();
        if (folds) {
          box.open = !box.open;
          refresh();
          box.knob.focus({ preventScroll: true });
        }
        select(scene, index);
      };
      group.addEventListener("click", (event) => { if (!moved) act(event); });
      group.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(event); }
      });
      if (!open) return;
      make("text", { class: "fd-t fd-h", x: 12, y: 17 }, group).textContent = box.title;
      const inner = scenes[box.inner];
      const middle = (width - inner.extent[0]) / 2;
      const inside = make("g", { transform: `translate(${middle} ${HEADER})` }, group);
      draw(inner, inside);
    });
  };

  // ---- details ---------------------------------------------------------------------------------
  const panel = document.getElementById("fd-panel");
  let chosen = null;
  const paint = () => {
    for (const old of document.querySelectorAll(".fd-on")) old.classList.remove("fd-on");
    if (chosen) chosen.scene.boxes[chosen.index].element?.classList.add("fd-on");
  };
  const element = (name, text) => Object.assign(document.createElement(name), { textContent: text });
  const entry = (list, word, ...content) => {
    const text = document.createElement("dd");
    text.append(...content);
    list.append(element("dt", word), text);
  };
  const link = (url) => Object.assign(element("a", url), { href: url, target: "_blank", rel: "noreferrer" });
  const told = (list, facts) => {
    for (const [word, text] of facts) entry(list, word, word === "documentation" ? link(text) : text);
  };
  // Buttons show all values of a tensor and save them; a page without them says which option holds them.
  const tellTensors = (list, rows) => {
    panel.classList.remove("fd-wide");
    for (const [name, text, values] of rows) {
      entry(list, name, text, ...(values ? fdTensors(name, values, widen) : []));
    }
  };
  // The panel takes some of the picture, which must not hide the step that it is about.
  const widen = () => {
    panel.classList.toggle("fd-wide", panel.querySelector(".fd-grid") !== null);
    if (chosen) bring(chosen.scene.boxes[chosen.index]);
  };
  const steps = (scene, list, word, found) => {
    const links = [...new Set(found)].flatMap((index) => {
      const box = scene.boxes[index], button = element("button", titleOf(box));
      button.addEventListener("click", () => { select(scene, index); bring(box); });
      return word === "reads" && output(box) ? [button, " ", element("small", output(box))] : [button];
    });
    if (links.length) entry(list, word, ...links);
  };
  const select = (scene, index) => {
    const box = scene.boxes[index], list = panel.querySelector("dl");
    chosen = { scene, index };
    panel.querySelector("h2").textContent = box.name;
    list.replaceChildren();
    told(list, box.facts);
    tellTensors(list, box.tensors);
    steps(scene, list, "reads", scene.ways.filter((way) => way[way.length - 1] === index).map((way) => way[0]));
    steps(scene, list, "read by", scene.ways.filter((way) => way[0] === index).map((way) => way[way.length - 1]));
    panel.hidden = false;
    paint();
  };
  const tellModel = () => {
    const list = panel.querySelector("dl"), save = ["SVG", "PNG"].map((form) => element("button", form));
    chosen = null;
    panel.querySelector("h2").textContent = document.title;
    list.replaceChildren();
    told(list, scenes[0].facts);
    tellTensors(list, scenes[0].tensors);
    save[0].addEventListener("click", () => keep(new Blob([still()[0]], { type: "image/svg+xml" }), "svg"));
    save[1].addEventListener("click", savePng);
    entry(list, "save the picture as it is open now", ...save);
    panel.hidden = false;
    paint();
  };
  const shut = () => {
    panel.hidden = true;
    chosen = null;
    paint();
  };
  // Moves the picture so that a step is in view.
  const bring = (box) => {
    const frame = svg.getBoundingClientRect(), at = box.element.getBoundingClientRect();
    if (at.left >= frame.left && at.right <= frame.right && at.top >= frame.top && at.bottom <= frame.bottom) return;
    view.x += frame.left + frame.width / 2 - (at.left + at.width / 2);
    view.y += frame.top + frame.height / 2 - (at.top + at.height / 2);
    show();
  };
  document.getElementById("fd-shut").addEventListener("click", shut);
  window.addEventListener("keydown", (event) => { if (event.key === "Escape") shut(); });

  let size = [0, 0];
  const show = () => root.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
  const refresh = () => {
    size = measure(scenes[0]);
    root.replaceChildren();
    draw(scenes[0], root);
    find();
    paint();
  };
  const fit = () => {
    const frame = svg.getBoundingClientRect();
    // Never wider than the window, and no smaller than can be read where only the height is short.
    const wide = (frame.width - (frame.width < 500 ? 16 : 40)) / size[0], tall = (frame.height - 40) / size[1];
    if (scenes[0].right) {  // the same, turned: never higher than the window
      view.scale = Math.max(Math.min(1.2, wide, tall), Math.min(0.6, tall), 0.1);
      view.x = Math.max(20, (frame.width - size[0] * view.scale) / 2);
      view.y = (frame.height - size[1] * view.scale) / 2;
    } else {
      view.scale = Math.max(Math.min(1.2, wide, tall), Math.min(0.6, wide), 0.1);
      view.x = (frame.width - size[0] * view.scale) / 2;
      view.y = 20;
    }
    show();
  };

  // ---- files -----------------------------------------------------------------------------------
  // The picture as a file of its own, with its width and height.
  const still = () => {
    const copy = root.cloneNode(true), [width, height] = size.map((length) => Math.ceil(length) + 32);
    copy.setAttribute("transform", "translate(16 16)");
    for (const each of copy.querySelectorAll(".fd-w")) each.remove();
    for (const each of copy.querySelectorAll(".fd-on, .fd-dim")) each.classList.remove("fd-on", "fd-dim");
    for (const each of copy.querySelectorAll("[tabindex]")) {
      for (const name of ["tabindex", "role", "aria-label", "aria-expanded"]) each.removeAttribute(name);
    }
    const style = document.getElementById("fd-style").textContent;
    const text = `<svg xmlns="${NS}" class="fd" role="img" width="${width}" height="${height}">`
      + `<style>${style}</style><rect class="fd-page" width="${width}" height="${height}"/>`
      + `${new XMLSerializer().serializeToString(copy)}</svg>`;
    return [text, width, height];
  };
  const keep = (blob, ending) => fdKeep(blob, `${document.title}.${ending}`);
  const savePng = async () => {
    const [text, width, height] = still(), image = new Image(), canvas = document.createElement("canvas");
    // An image has no reader whose theme it could follow, so it gets that of the page.
    const dark = matchMedia("(prefers-color-scheme:dark)").matches ? "@media all" : "@media not all";
    const drawn = text.replace("@media (prefers-color-scheme:dark)", dark);
    image.src = `data:image/svg+xml,${encodeURIComponent(drawn)}`;
    await image.decode();
    // Browsers draw nothing on a canvas that is too large.
    const scale = Math.min(2, 16000 / Math.max(width, height));
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => keep(blob, "png"));
  };

  // Search: dims what does not match; matches inside closed boxes light up the box.
  const matches = (scene, text) => scene.boxes.some((box) =>
    box.text.includes(text) || (box.inner >= 0 && matches(scenes[box.inner], text)));
  const mark = (scene, text) => {
    for (const box of scene.boxes) {
      const inside = box.inner >= 0 && matches(scenes[box.inner], text);
      const hit = !text || box.text.includes(text) || inside;
      if (box.element) box.element.classList.toggle("fd-dim", !hit);
      if (box.inner >= 0 && box.open) mark(scenes[box.inner], text);
    }
  };
  const field = document.getElementById("fd-find");
  const find = () => mark(scenes[0], field.value.trim().toLowerCase());
  field.addEventListener("input", find);
  // Enter leads to the next step that is found, and opens what it lies in.
  let turn = 0;
  const hits = (scene, text, around) => scene.boxes.flatMap((box, index) => [
    ...(box.text.includes(text) ? [{ scene, index, around }] : []),
    ...(box.inner >= 0 ? hits(scenes[box.inner], text, [...around, box]) : []),
  ]);
  field.addEventListener("input", () => { turn = 0; });
  field.addEventListener("keydown", (event) => {
    const text = field.value.trim().toLowerCase(), found = text ? hits(scenes[0], text, []) : [];
    if (event.key !== "Enter" || !found.length) return;
    const { scene, index, around } = found[turn++ % found.length];
    for (const box of around) box.open = true;
    refresh();
    select(scene, index);
    bring(scene.boxes[index]);
  });

  const setAll = (open) => {
    for (const scene of scenes) for (const box of scene.boxes) if (box.inner >= 0) box.open = open;
    refresh();
    fit();
  };
  document.getElementById("fd-open").addEventListener("click", () => setAll(true));
  document.getElementById("fd-close").addEventListener("click", () => setAll(false));
  document.getElementById("fd-fit").addEventListener("click", fit);
  document.getElementById("fd-model").addEventListener("click", tellModel);
  document.getElementById("fd-tensors").addEventListener("click", (event) => {
    tensors = !tensors;
    event.currentTarget.setAttribute("aria-pressed", String(tensors));
    refresh();
    fit();
  });

  const zoom = (factor, x, y) => {
    view.x = x - (x - view.x) * factor;
    view.y = y - (y - view.y) * factor;
    view.scale *= factor;
    show();
  };
  const zoomMiddle = (factor) => {
    const frame = svg.getBoundingClientRect();
    zoom(factor, frame.width / 2, frame.height / 2);
  };
  document.getElementById("fd-in").addEventListener("click", () => zoomMiddle(1.25));
  document.getElementById("fd-out").addEventListener("click", () => zoomMiddle(0.8));

  // One finger or the mouse moves the picture, two fingers zoom it.
  const fingers = new Map();
  let from = null, moved = false;
  const spread = () => {
    const [one, two] = [...fingers.values()];
    return { x: (one.x + two.x) / 2, y: (one.y + two.y) / 2, length: Math.hypot(one.x - two.x, one.y - two.y) };
  };
  svg.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    from = { x: event.clientX, y: event.clientY };
    moved = false;
  });
  window.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId);
    if (!last) return;
    const before = fingers.size === 2 ? spread() : null;
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (Math.hypot(event.clientX - from.x, event.clientY - from.y) > 4) moved = true;
    if (before) {
      const after = spread(), frame = svg.getBoundingClientRect();
      moved = true;
      zoom(after.length / (before.length || 1), after.x - frame.left, after.y - frame.top);
    } else if (moved) {
      view.x += event.clientX - last.x;
      view.y += event.clientY - last.y;
      show();
    }
  });
  for (const end of ["pointerup", "pointercancel"]) {
    window.addEventListener(end, (event) => fingers.delete(event.pointerId));
  }
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (!event.ctrlKey && !event.metaKey) {
      view.x -= event.deltaX;
      view.y -= event.deltaY;
      show();
      return;
    }
    const frame = svg.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 300), event.clientX - frame.left, event.clientY - frame.top);
  }, { passive: false });
  window.addEventListener("resize", fit);
  refresh();
  fit();
})();
