// Shows all values of a tensor, as many as fit at a time, and saves them as a file of NumPy.
"use strict";
const fdKeep = (blob, name) => {
  const url = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
};

const fdTensors = (() => {
  // The array that holds a dtype, and its name in a file; both of the wider type where there is no such array.
  const KINDS = {
    bool: [Uint8Array, "|b1"], uint8: [Uint8Array, "|u1"], int8: [Int8Array, "|i1"],
    uint16: [Uint16Array, "<u2"], int16: [Int16Array, "<i2"], uint32: [Uint32Array, "<u4"],
    int32: [Int32Array, "<i4"], uint64: [BigUint64Array, "<u8"], int64: [BigInt64Array, "<i8"],
    float16: [Uint16Array, "<f2"], float32: [Float32Array, "<f4"], float64: [Float64Array, "<f8"],
    complex64: [Float32Array, "<c8"], complex128: [Float64Array, "<c16"],
    bfloat16: [Float32Array, "<f4"], complex32: [Float32Array, "<c8"],
  };
  const KINDS_OF_TABLES = [Float32Array, "<f4"];
  const ROW = 20, HEAD = 20, LONGEST = 8e6;

  const half = (bits) => {
    const sign = bits >> 15 ? -1 : 1, power = (bits >> 10) & 31, rest = bits & 1023;
    if (power === 31) return rest ? NaN : sign * Infinity;
    return sign * (power ? (1 + rest / 1024) * 2 ** (power - 15) : rest * 2 ** -24);
  };

  // In pieces: a string of a hundred megabytes at once needs several times that.
  const bytesOf = (text) => {
    const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
    const bytes = new Uint8Array((text.length / 4) * 3 - padding);
    for (let start = 0, end = 0; start < text.length; start += 1 << 20) {
      const piece = atob(text.slice(start, start + (1 << 20)));
      for (let i = 0; i < piece.length; i++) bytes[end++] = piece.charCodeAt(i);
    }
    return bytes;
  };

  const read = async (values) => {
    let bytes = bytesOf(document.getElementById(`fd-values-${values.number}`).textContent);
    if (values.packed) {
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    }
    if (values.table) {
      // As bits, since a copy of a NaN as a number may be another NaN.
      const table = new Uint32Array(bytesOf(values.table).buffer);
      return new Float32Array(Uint32Array.from(bytes, (code) => table[code]).buffer);
    }
    const words = () => new Uint16Array(bytes.buffer);
    if (values.dtype === "bfloat16") return new Float32Array(Uint32Array.from(words(), (bits) => bits << 16).buffer);
    if (values.dtype === "complex32") return Float32Array.from(words(), half);
    return new KINDS[values.dtype][0](bytes.buffer);
  };

  // ---- a value as text -------------------------------------------------------------------------
  // The shortest text that gives the same number again.
  const single = (value) => {
    for (let digits = 1; digits < 9; digits++) {
      const near = Number(value.toPrecision(digits));
      if (Math.fround(near) === value) return String(near);
    }
    return String(Number(value.toPrecision(9)));
  };
  const number = (value, text) => {
    if (Number.isNaN(value)) return "nan";
    if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
    return Object.is(value, -0) ? "-0" : text(value);
  };
  const writer = (dtype, data) => {
    const text = data instanceof Float64Array ? String : single, plain = (value) => number(value, text);
    if (dtype === "bool") return (i) => (data[i] ? "True" : "False");
    if (dtype === "float16") return (i) => plain(half(data[i]));
    if (!dtype.startsWith("complex")) return data instanceof Float32Array || data instanceof Float64Array
      ? (i) => plain(data[i]) : (i) => String(data[i]);
    return (i) => {
      const [real, other] = [plain(data[2 * i]), plain(data[2 * i + 1])];
      return `${real}${other.startsWith("-") ? "" : "+"}${other}j`;
    };
  };
  const widthOf = (dtype) => {
    const letters = { bool: 5, uint8: 3, int8: 4, uint16: 5, int16: 6, uint32: 10, int32: 11, uint64: 20, int64: 20,
      float64: 24, complex128: 49, complex64: 32, complex32: 32 };
    return Math.round((letters[dtype] || 15) * 7.3) + 14;
  };

  // ---- the file --------------------------------------------------------------------------------
  // Version 1.0 of the format that the documentation of numpy.lib.format describes.
  const npy = (values, data) => {
    const [, descr] = values.table ? KINDS_OF_TABLES : KINDS[values.dtype], { shape } = values;
    const sizes = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
    // NumPy leaves room for a first dimension of 21 digits.
    const room = shape.length ? " ".repeat(Math.max(0, 21 - String(shape[0]).length)) : "";
    const text = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${sizes}), }${room}`;
    const length = Math.ceil((10 + text.length + 1) / 64) * 64 - 10;
    const head = new Uint8Array([0x93, ...[..."NUMPY"].map((c) => c.charCodeAt(0)), 1, 0, length & 255, length >> 8]);
    return new Blob([head, `${text.padEnd(length - 1)}\n`, data], { type: "application/octet-stream" });
  };

  // ---- the window ------------------------------------------------------------------------------
  const made = (name, attributes, ...content) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...content);
    return element;
  };
  const between = (value, most) => Math.max(0, Math.min(value, most));

  // One direction of the window.  Its length in pixels has a limit, since browsers have one; beyond that the bar
  // moves in proportion, and keys, the wheel and "go to" reach each row.
  const axis = (count, size, edge) => {
    const length = Math.min(count * size + edge, LONGEST);
    let known = [0, 0];
    return {
      length, capped: count * size + edge > LONGEST,
      fitting: (visible) => Math.max(1, Math.floor((visible - edge) / size)),
      first(scrolled, visible) {
        if (scrolled === known[0]) return between(known[1], count - this.fitting(visible));
        const most = count - this.fitting(visible);
        return length <= visible ? 0 : between(Math.round((scrolled / (length - visible)) * most), most);
      },
      scrollTo(first, visible, put) {
        const most = count - this.fitting(visible), wanted = between(first, most);
        known = [put(most > 0 ? (wanted / most) * (length - visible) : 0), wanted];
      },
    };
  };

  const windowOf = (name, values, data) => {
    const { shape, dtype } = values, columns = shape.length > 1 ? shape[shape.length - 1] : 1;
    const total = shape.reduce((one, two) => one * two, 1), outer = shape.length > 1 ? shape.slice(0, -1) : shape;
    if (!total) return [made("p", {}, `The shape ${shape.join("\u00d7")} has no values.`)];
    const indices = (row) => outer.map((_, place) => {
      const below = outer.slice(place + 1).reduce((one, two) => one * two, 1);
      return Math.floor(row / below) % outer[place];
    });
    const rows = total / columns, text = writer(dtype, data), column = widthOf(dtype);
    const edge = Math.round(Math.max(3, indices(rows - 1).join(", ").length + 2) * 7.3) + 14;
    const down = axis(rows, ROW, shape.length > 1 ? HEAD : 0), across = axis(columns, column, edge);
    const table = made("table", {}), place = made("small", { role: "status" });
    const sizer = made("div", { style: `width:${across.length}px;height:${down.length}px` }, table);
    const box = made("div", { class: "fd-grid", tabindex: 0, role: "region", "aria-label": `values of ${name}` }, sizer);
    const where = () => [down.first(box.scrollTop, box.clientHeight), across.first(box.scrollLeft, box.clientWidth)];
    const draw = () => {
      if (!box.clientHeight) return;
      const [top, left] = where();
      const lines = Math.min(rows - top, down.fitting(box.clientHeight));
      const cells = Math.min(columns - left, across.fitting(box.clientWidth));
      const widths = [edge, ...Array(cells).fill(column)];
      const head = shape.length < 2 ? [] : [made("thead", {}, made("tr", {}, made("td", {}),
        ...widths.slice(1).map((_, each) => made("th", { scope: "col" }, String(left + each)))))];
      const body = made("tbody", {}, ...Array.from({ length: lines }, (_, line) => made("tr", {},
        made("th", { scope: "row" }, `[${indices(top + line).join(", ")}]`),
        ...widths.slice(1).map((_, each) => made("td", {}, text((top + line) * columns + left + each))))));
      table.style.width = `${edge + cells * column}px`;
      table.replaceChildren(made("colgroup", {}, ...widths.map((each) => made("col", { style: `width:${each}px` }))),
        ...head, body);
      place.textContent = `rows ${top + 1} to ${top + lines} of ${rows.toLocaleString("en")}`
        + (columns > 1 ? `, columns ${left + 1} to ${left + cells} of ${columns.toLocaleString("en")}` : "");
    };
    const move = (top, left) => {
      down.scrollTo(top, box.clientHeight, (pixels) => { box.scrollTop = pixels; return box.scrollTop; });
      across.scrollTo(left, box.clientWidth, (pixels) => { box.scrollLeft = pixels; return box.scrollLeft; });
      draw();
    };
    box.addEventListener("scroll", draw);
    box.addEventListener("wheel", (event) => {
      if (!down.capped || !event.deltaY) return;
      event.preventDefault();
      const [top, left] = where();
      move(top + Math.sign(event.deltaY) * Math.max(1, Math.round(Math.abs(event.deltaY) / ROW)), left);
    }, { passive: false });
    box.addEventListener("keydown", (event) => {
      const page = down.fitting(box.clientHeight), [top, left] = where();
      const way = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-page, 0],
        PageDown: [page, 0], Home: [-top, -left], End: [rows, 0] }[event.key];
      if (!way) return;
      event.preventDefault();
      move(top + way[0], left + way[1]);
    });
    new ResizeObserver(draw).observe(box);
    const field = made("input", { placeholder: shape.map(() => "0").join(", "), "aria-label": `go to an index of ${name}` });
    const refused = made("small", { role: "alert" });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      refused.textContent = "";
      const wanted = field.value.split(/[^-\d]+/).filter(Boolean).map(Number);
      const fits = wanted.length > 0 && wanted.length <= shape.length
        && wanted.every((each, at) => Number.isInteger(each) && each >= 0 && each < shape[at]);
      if (!fits) {
        refused.textContent = `no such index: the shape is ${shape.join("\u00d7")}`;
        return;
      }
      const flat = shape.reduce((sum, size, at) => sum * size + (wanted[at] || 0), 0);
      move(Math.floor(flat / columns), flat % columns);
    });
    return [box, made("div", { class: "fd-go" }, ...(shape.length ? [made("label", {}, "go to ", field)] : []), refused, place)];
  };

  // What follows the text of a tensor in the details: two buttons, or why there are none.
  return (name, values, changed) => {
    if (values.left) return [made("div", {}, made("small", {}, values.left))];
    const see = made("button", { "aria-expanded": "false" }, "Values"), save = made("button", {}, "Save .npy");
    const room = made("div", {}), wider = values.table || values.dtype === "bfloat16" ? "float32" : "complex64";
    const widens = values.table || values.dtype === "bfloat16" || values.dtype === "complex32";
    const known = () => read(values).catch((problem) => {
      room.replaceChildren(`This browser cannot unpack the values: ${problem.message}`);
      return null;
    });
    see.setAttribute("aria-label", `Values of ${name}`);
    save.setAttribute("aria-label", `Save ${name} as .npy`);
    see.addEventListener("click", async () => {
      const open = see.getAttribute("aria-expanded") === "false";
      see.setAttribute("aria-expanded", String(open));
      room.replaceChildren();
      const data = open ? await known() : null;
      if (data && see.getAttribute("aria-expanded") === "true") room.replaceChildren(...windowOf(name, values, data));
      changed();
    });
    save.addEventListener("click", async () => {
      const data = await known();
      if (data) fdKeep(npy(values, data), `${values.name}.npy`);
    });
    const note = widens ? [made("small", {}, `saved as ${wider}, which holds each value: NumPy has no ${values.dtype}`)] : [];
    return [made("div", {}, see, save, ...note), room];
  };
})();
