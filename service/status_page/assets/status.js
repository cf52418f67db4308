"use strict";
// Everything that the server tells goes into the page as text (textContent), never as HTML.

const EVERY_MS = 2000;
const KEPT = 60; // looks, two minutes
const SVG = "http://www.w3.org/2000/svg";
const cards = new Map();
let hasTrial = false;

const find = (id) => document.getElementById(id);

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

const number = (value) =>
  value >= 100 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 3 });

const count = (value) => value.toLocaleString("en");

async function look() {
  if (!document.hidden) {
    try {
      const answer = await fetch("status/data", { cache: "no-store" });
      if (!answer.ok) throw new Error(await answer.text());
      show(await answer.json(), performance.now());
      find("note").textContent = "";
    } catch (error) {
      find("note").textContent = `no answer from the server: ${error.message}`;
      setBadge(find("ready"), "not reached", "bad");
    }
  }
  setTimeout(look, EVERY_MS);
}

function show(data, now) {
  hasTrial = data.has_trial;
  find("version").textContent = data.server;
  setBadge(find("ready"), data.ready ? "ready" : "not ready", data.ready ? "good" : "bad");
  find("models").replaceChildren(...data.models.map(modelRow));
  const seen = new Set();
  for (const signature of data.signatures) {
    const key = JSON.stringify([signature.model, signature.version, signature.signature]);
    seen.add(key);
    let card = cards.get(key);
    if (!card || card.shape !== shapeOf(signature)) {
      if (card) card.element.remove();
      card = new Card(signature);
      cards.set(key, card);
    }
    if (!card.element.isConnected) find("signatures").append(card.element);
    card.update(signature, now);
  }
  for (const [key, card] of cards) {
    if (!seen.has(key)) {
      card.element.remove();
      cards.delete(key);
    }
  }
}

// A reloaded model may have other tensors under the same name.
const shapeOf = (signature) => JSON.stringify([signature.inputs, signature.outputs, hasTrial]);

function setBadge(element, text, kind) {
  element.textContent = text;
  element.className = `badge ${kind}`;
}

function modelRow(model) {
  const row = make("tr");
  row.append(make("td", model.name), make("td", model.version));
  const kind = { READY: "good", UNAVAILABLE: "bad" }[model.state] || "warn";
  const state = make("td");
  state.append(make("span", model.state || "not loaded", `badge ${kind}`));
  row.append(state, make("td", model.reason));
  return row;
}

class Card {
  constructor(signature) {
    this.shape = shapeOf(signature);
    this.looks = [];
    this.element = find("signature").content.cloneNode(true).firstElementChild;
    this.part(".model").textContent = `${signature.model} ${signature.version}`;
    this.part(".name").textContent = signature.signature;
    this.part(".inputs").textContent = signature.inputs.map((tensor) => tensor.text).join("\n") || "nothing";
    this.part(".outputs").textContent = signature.outputs.map((tensor) => tensor.text).join("\n");
    this.element.dataset.signature = signature.signature;
    this.charts = [new Chart("requests/s"), new Chart("rows in a run"), new Chart("wait, ms")];
    this.part(".charts").append(...this.charts.map((chart) => chart.element));
    if (hasTrial) {
      this.part("details").hidden = false;
      fillForm(this.part("form"), this.part(".answer"), signature);
    }
  }

  part(selector) {
    return this.element.querySelector(selector);
  }

  update(signature, now) {
    this.part(".badges").replaceChildren(...badges(signature));
    const before = this.looks.at(-1);
    this.looks.push({ now, signature });
    if (this.looks.length > KEPT) this.looks.shift();
    const isNew = !before || signature.requests < before.signature.requests; // counters start anew with a reload
    const since = (name) => (isNew ? 0 : signature[name] - before.signature[name]);
    const per = (name, others) => (others > 0 ? since(name) / others : null); // nothing is known where there was nothing
    this.charts[0].add(per("requests", isNew ? 0 : (now - before.now) / 1000), `${count(signature.requests)} answered`);
    this.charts[1].add(per("rows", since("runs")), `${count(signature.runs)} runs`);
    this.charts[2].add(per("queue_ms", since("requests")), `${count(signature.waiting)} waiting`);
  }
}

function badges(signature) {
  const list = [];
  if (signature.max_batch_size && signature.why_not_batched === null) {
    list.push(make("span", `batches of up to ${signature.max_batch_size}`, "badge good"));
  } else {
    const reason = signature.why_not_batched ? `: ${signature.why_not_batched}` : "";
    list.push(make("span", `not batched${reason}`, "badge"));
  }
  if (signature.effect !== "pure") list.push(make("span", signature.effect, "badge warn"));
  if (signature.failed) list.push(make("span", `${count(signature.failed)} failed`, "badge bad"));
  return list;
}

// The last two minutes; where a value is null there is a gap.
class Chart {
  constructor(title) {
    this.values = [];
    this.element = make("figure");
    this.now = make("strong");
    this.peak = make("span", "", "peak");
    this.total = make("small");
    this.area = document.createElementNS(SVG, "path");
    this.area.setAttribute("class", "area");
    this.line = document.createElementNS(SVG, "path");
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${KEPT - 1} 40`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${title} in the last two minutes`);
    svg.append(this.area, this.line);
    this.element.append(make("figcaption", title), this.now, svg, this.peak, this.total);
  }

  add(value, total) {
    this.values.push(value);
    if (this.values.length > KEPT) this.values.shift();
    const highest = Math.max(...this.values.filter((each) => each !== null), 0);
    const runs = this.runs(highest || 1);
    this.line.setAttribute("d", runs.map((points) => `M${points.join("L")}h.01`).join("")); // a lone value is a dot
    this.area.setAttribute("d", runs.map((points) => `M${points[0][0]},40L${points.join("L")}L${points.at(-1)[0]},40Z`).join(""));
    this.now.textContent = value === null ? "-" : number(value);
    this.peak.textContent = highest ? number(highest) : "";
    this.total.textContent = total;
  }

  // The points [x, y] of each stretch without a gap.
  runs(highest) {
    const stretches = [[]];
    this.values.forEach((value, i) => {
      if (value === null) stretches.push([]);
      else stretches.at(-1).push([KEPT - this.values.length + i, (38 - (36 * value) / highest).toFixed(2)]);
    });
    return stretches.filter((points) => points.length);
  }
}

function fillForm(form, answer, signature) {
  const fields = signature.inputs.map((spec) => {
    const label = make("label", `${spec.text}${spec.optional ? " (may be left out)" : ""}`);
    const area = make("textarea");
    area.placeholder = example(spec);
    area.spellcheck = false;
    area.name = spec.name;
    label.append(area);
    form.append(label);
    if (spec.datatype === "BYTES" || pictureSize(spec)) form.append(fileField(spec, area));
    return { spec, area };
  });
  const button = make("button", "Send");
  form.append(button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await send(fields, answer, signature);
    } catch (error) {
      answer.replaceChildren(make("p", error.message, "bad"));
    }
    button.disabled = false;
  });
}

// What one row looks like, where it is short enough to be read.
function example(spec) {
  if (spec.datatype === "BYTES") return "a text, or a JSON list of texts";
  const inner = spec.shape && spec.shape[0] === -1 ? spec.shape.slice(1) : spec.shape;
  const isShort = inner && inner.every((size) => size > 0) && inner.reduce((a, b) => a * b, 1) <= 16;
  if (!isShort) return "a JSON list of numbers";
  return JSON.stringify(inner.reduceRight((row, size) => Array(size).fill(row), spec.datatype === "BOOL" ? false : 0));
}

async function send(fields, answer, signature) {
  const inputs = {};
  for (const { spec, area } of fields) {
    const text = area.value.trim();
    if (text) inputs[spec.name] = read(text, spec);
  }
  const started = performance.now();
  const reply = await fetch("status/trial", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: signature.model, version: signature.version, signature: signature.signature, inputs }),
  });
  const result = await reply.json();
  if (!reply.ok) throw new Error(result.error);
  answer.replaceChildren(make("p", `answered in ${number(performance.now() - started)} ms`));
  for (const output of result.outputs) {
    const cut = output.is_cut ? `, the first ${output.values.length} elements` : "";
    answer.append(make("p", `${output.text} came as [${output.shape.join(",")}]${cut}`), make("pre", `[${output.values.map(readable).join(", ")}]`));
  }
}

const readable = (value) =>
  typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(7))) : JSON.stringify(value);

function read(text, spec) {
  if (spec.datatype === "BYTES" && !/^["[{]/.test(text)) return text; // a text needs no quotes
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${spec.name}: ${error.message}`);
  }
}

// Height, width and channels (0 where there is no such dimension) of inputs that a picture can fill.
function pictureSize(spec) {
  if (!spec.shape) return null;
  const inner = spec.shape.length > 2 && spec.shape[0] === -1 ? spec.shape.slice(1) : spec.shape;
  if (inner.length === 2) return [inner[0], inner[1], 0];
  return inner.length === 3 && [1, 3, 4].includes(inner[2]) ? inner : null;
}

function fileField(spec, area) {
  const input = make("input");
  input.type = "file";
  input.setAttribute("aria-label", `a file for ${spec.name}`);
  if (spec.datatype !== "BYTES") input.accept = "image/*";
  input.addEventListener("change", async () => {
    const file = input.files[0];
    if (!file) return;
    try {
      area.value = JSON.stringify(spec.datatype === "BYTES" ? { b64: await base64(file) } : await levels(file, pictureSize(spec)));
    } catch (error) {
      area.value = "";
      area.placeholder = `${file.name}: ${error.message}`;
    }
  });
  return input;
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

// Levels from 0 to 255 in the size that the input fixes, as `signet infer` sends them.
async function levels(file, [height, width, channels]) {
  const bitmap = await createImageBitmap(file);
  const canvas = make("canvas");
  canvas.width = width === -1 ? bitmap.width : width;
  canvas.height = height === -1 ? bitmap.height : height;
  const context = canvas.getContext("2d");
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
  const rows = [];
  for (let y = 0; y < canvas.height; y++) {
    const row = [];
    for (let x = 0; x < canvas.width; x++) {
      const pixel = Array.from(data.slice(4 * (y * canvas.width + x), 4 * (y * canvas.width + x) + 4));
      const grey = Math.round(0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]);
      row.push(channels === 0 ? grey : channels === 1 ? [grey] : pixel.slice(0, channels));
    }
    rows.push(row);
  }
  return rows;
}

look();
