// The report: what is typed or chosen filters files and classes; folds open.
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const entries = new Map(all("nav [data-for]").map((entry) => [entry.dataset.for, entry]));

  function show(element, shown) {
    element.hidden = !shown;
    entries.get(element.id).hidden = !shown;
  }

  function filter() {
    const text = at("find").value.trim().toLowerCase(), state = at("state").value;
    let count = 0;
    for (const section of all("section[data-name]")) {
      const named = section.dataset.name.includes(text);
      let hits = 0;
      for (const article of all("article[data-class]", section)) {
        const hit = (named || article.dataset.class.includes(text)) && (!state || article.dataset.state === state);
        show(article, hit);
        hits += hit;
      }
      show(section, hits > 0 || (named && !state));
      count += hits;
    }
    at("count").textContent = `${count} of ${all("article[data-class]").length} classes`;
  }

  function fold(button, open) {
    button.setAttribute("aria-expanded", String(open));
    button.closest("tbody").nextElementSibling.hidden = !open;
  }

  for (const button of all("tbody.fold button")) {
    button.addEventListener("click", () => fold(button, button.getAttribute("aria-expanded") === "false"));
  }
  at("unfold").addEventListener("click", () => {
    const open = at("unfold").getAttribute("aria-pressed") === "false";
    at("unfold").setAttribute("aria-pressed", String(open));
    at("unfold").textContent = open ? "Fold all" : "Unfold all";
    for (const details of all("details")) details.open = open;
    for (const button of all("tbody.fold button")) fold(button, open);
  });
  at("find").addEventListener("input", filter);
  at("state").addEventListener("change", filter);
  all("nav .tools")[0].hidden = false;
  filter();
})();
