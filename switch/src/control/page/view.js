// Shows the model. Updates change the text of rows and keep their elements, so that the focus and a screen reader keep their
// place.

import { bits, bytes, causes, duration, percent, SAMPLES } from "./model.js";

const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function drawn(tag, attributes, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

const grouped = (count) => count.toLocaleString("en");

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Gives an element one child for each key, in their order, and keeps existing children. */
function keep(parent, kept, keys, build) {
  for (const [key, element] of kept) {
    if (!keys.includes(key)) {
      element.remove();
      kept.delete(key);
    }
  }
  keys.forEach((key, at) => {
    if (!kept.has(key)) kept.set(key, build(key));
    if (parent.children[at] !== kept.get(key)) parent.insertBefore(kept.get(key), parent.children[at] ?? null);
  });
}

export function header(own) {
  const { status } = own;
  if (!status) return;
  document.title = `${status.name} – xoff`;
  say(byId("name"), status.name);
  const { promise, lossless_lost: lost, unseen_lost: unseen, unproved, acknowledged = [] } = status.verdict;
  const words = {
    kept: "nothing lossless was lost" + (acknowledged.length ? `, as far as is known: ${acknowledged.join("; ")}` : ""),
    "not-kept": `NOT LOSSLESS: ${grouped(lost)} lossless frames lost, ${grouped(unseen)} outside the switch`,
    "not-proved": `no loss is known; not proved: ${unproved.join("; ")}`,
  };
  const stalls = status.workers.reduce((sum, worker) => sum + worker.stalls, 0);
  const stalled = stalls ? `; ${stalls} ${stalls === 1 ? "stall" : "stalls"}` : "";
  const isLossless = (number) => status.ports.some((port) => port.classes[number]?.lossless);
  const policies = status.policies.flatMap((name, number) => (isLossless(number) ? [`; class ${number}: ${name}`] : [])).join("");
  const verdict = byId("verdict");
  say(verdict, `${words[promise] ?? promise}; up for ${duration(status.uptime_nanos)}${stalled}${policies}`);
  verdict.className = promise === "kept" ? "good" : promise === "not-kept" ? "bad" : "";
}

const COLUMNS = ["link", "in", "out", "line", "ingress", "headroom", "egress", "sent", "received", "drops"];
const rows = new Map();
const open = new Set();

/** Shows the table of ports, with the classes of expanded ports. */
export function ports(switches, { which, number }) {
  const keys = [];
  const facts = new Map();
  for (const it of switches) {
    if (!it.status) continue;
    if (switches.length > 1) {
      keys.push(it.url);
      facts.set(it.url, { title: it.name });
    }
    for (const port of it.status.ports) {
      const classes = port.classes.filter((of) => number === "" || of.class === Number(number));
      const now = it.ofPort(port, classes);
      if (!wanted(which, port, classes, now)) continue;
      const key = `${it.url} ${port.name}`;
      keys.push(key);
      facts.set(key, { port, now });
      if (!open.has(key)) continue;
      for (const of of classes) {
        const ofClass = it.ofClass(port, of);
        if (!ofClass.used && !of.lossless && number === "") continue;
        keys.push(`${key} ${of.class}`);
        facts.set(`${key} ${of.class}`, { of, now: ofClass });
      }
    }
  }
  keep(byId("rows"), rows, keys, (key) => row(key, facts.get(key)));
  for (const [key, { title, port, of, now }] of facts) {
    const shown = rows.get(key);
    if (title) say(shown.firstChild.firstChild, title);
    else fill(shown, port, of, now);
  }
}

function wanted(which, port, classes, now) {
  if (which === "moving") return now.inBits + now.outBits > 0;
  const isPaused = (of) => of.pause_sent.now || of.pause_received.now || of.culprits.length > 0;
  if (which === "paused") return now.sent + now.received > 0 || classes.some(isPaused);
  return true;
}

function row(key, { title, port, of }) {
  if (title) {
    const head = make("th", { scope: "rowgroup", colspan: COLUMNS.length + 1 }, make("span"));
    return make("tr", { class: "switch" }, head);
  }
  const cells = COLUMNS.map((name) => make("td", { class: ["link", "drops"].includes(name) ? name : `n ${name}` }));
  if (of) {
    const name = `class ${of.class}, ${of.lossless ? "lossless" : "lossy"}`;
    return make("tr", { class: "class" }, make("th", { scope: "row" }, name), ...cells);
  }
  const button = make("button", { type: "button", "aria-expanded": "false", title: "Classes of this port" }, port.name);
  button.addEventListener("click", () => {
    if (!open.delete(key)) open.add(key);
    button.setAttribute("aria-expanded", open.has(key));
    document.dispatchEvent(new Event("draw"));
  });
  return make("tr", {}, make("th", { scope: "row" }, button), ...cells);
}

function fill(shown, port, of, now) {
  const cells = Object.fromEntries(COLUMNS.map((name, at) => [name, shown.children[at + 1]]));
  if (port) say(cells.link, port.link === "up" ? bits(port.speed_bits_per_second) : port.link);
  say(cells.in, bits(now.inBits));
  say(cells.out, bits(now.outBits));
  say(cells.line, percent(now.line));
  filled(cells.ingress, now.ingress, of?.lossless ? now.room : 0, now.xoff);
  say(cells.headroom, now.headroomLeft === null ? "–" : bytes(now.headroomLeft));
  filled(cells.egress, now.egress, of ? now.egressRoom : 0);
  say(cells.sent, percent(now.sent));
  say(cells.received, percent(now.received));
  const drops = now.drops.map(([reason, count]) => `${reason} ${grouped(count)}`).join(",\n");
  say(cells.drops, drops || "0");
  cells.drops.classList.toggle("bad", now.lost > 0);
}

/** Shows a byte count, and a bar of its share of the limit, if known. */
function filled(cell, value, room, mark) {
  if (!cell.firstChild) cell.append(make("span"));
  say(cell.firstChild, bytes(value));
  if (!room) return;
  if (!cell.children[1]) cell.append(make("span", { class: "bar", "aria-hidden": "true" }, make("i")));
  const bar = cell.children[1];
  bar.firstChild.style.width = `${Math.min(100, (100 * value) / room)}%`;
  if (!mark) return;
  if (!bar.children[1]) bar.append(make("b", { title: "XOFF" }));
  bar.children[1].style.left = `${(100 * mark) / room}%`;
}

const MOST_STRIPS = 48;
const strips = new Map();

/** Shows a strip for each class of a port with recent pauses. */
export function pauses(switches) {
  const all = switches.flatMap((it) => [...it.pauses.values()].map((past) => ({ past, name: switches.length > 1 ? `${it.name} ` : "" })));
  const sum = ({ past }) => past.sent.reduce((a, b) => a + b, 0) + past.received.reduce((a, b) => a + b, 0);
  const shown = new Map();
  const most = [...all].sort((a, b) => sum(b) - sum(a)).slice(0, MOST_STRIPS);
  for (const it of all.filter((it) => most.includes(it))) shown.set(`${it.name}${it.past.port}, class ${it.past.class}`, it.past);
  keep(byId("pauses"), strips, [...shown.keys()], () => make("li", {}, make("span"), make("canvas", { "aria-hidden": "true" })));
  for (const [name, past] of shown) {
    const [text, canvas] = strips.get(name).children;
    say(text, `${name}: pauses its peer ${percent(past.sent.at(-1))}, paused by it ${percent(past.received.at(-1))}`);
    strip(canvas, past);
  }
  const none = byId("no-pauses");
  none.hidden = all.length > 0 && all.length <= MOST_STRIPS;
  const more = all.length - MOST_STRIPS;
  say(none, more > 0 ? `${more} more are paused less.` : all.length ? "" : "No class was paused.");
}

function strip(canvas, past) {
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [Math.round(canvas.clientWidth * scale), Math.round(canvas.clientHeight * scale)];
  if (!width || !height) return;
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  const colours = getComputedStyle(document.documentElement);
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, width, height);
  const [step, middle] = [width / SAMPLES, height / 2];
  const bars = (samples, colour, direction) => {
    pen.fillStyle = colours.getPropertyValue(colour);
    samples.forEach((share, at) => {
      const tall = share ? Math.max(scale, share * (middle - scale)) : 0;
      pen.fillRect(at * step, direction < 0 ? middle - tall : middle, Math.max(1, step - scale), tall);
    });
  };
  bars(past.sent, "--sent", -1);
  bars(past.received, "--received", 1);
  pen.fillStyle = colours.getPropertyValue("--line");
  pen.fillRect(0, middle, width, 1);
}

const [BOX, TALL, ACROSS, DOWN] = [160, 40, 260, 56];
let announced = "";

/** Shows who pauses whom, as a graph and as a list. */
export function graph(switches) {
  const { places, steps } = causes(switches);
  const lines = steps.map(({ from, to, because }) => `${from.text} – ${because}: ${to.text}`);
  const cycle = places.filter((it) => it.inCycle).map((it) => it.text);
  if (cycle.length) lines.push(`CYCLE, a deadlock if it lasts: ${cycle.join(", ")}`);
  if (!lines.length) lines.push(...(places.length ? places.map((it) => it.text) : ["No peer is paused."]));
  if (lines.join("\n") === announced) return;
  announced = lines.join("\n");
  byId("causes").replaceChildren(...lines.map((line) => make("li", line.startsWith("CYCLE") ? { class: "bad" } : {}, line)));
  byId("graph").replaceChildren(...(places.length ? [drawing(places, steps)] : []));
}

function drawing(places, steps) {
  const filled = [];
  for (const place of places) {
    place.row = filled[place.column] ?? 0;
    filled[place.column] = place.row + 1;
  }
  const at = (place) => [4 + place.column * ACROSS, 4 + place.row * DOWN];
  const [width, height] = [8 + (filled.length - 1) * ACROSS + BOX, 8 + Math.max(...filled.filter(Boolean)) * DOWN];
  const picture = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const head = drawn("marker", { id: "head", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" });
  head.append(drawn("path", { d: "M0 0L8 4L0 8z" }));
  picture.append(head);
  for (const { from, to, because } of steps) {
    const [[x, y], [u, v]] = [at(from), at(to)];
    const back = u <= x;
    const [begin, end] = [back ? x : x + BOX, back ? u + BOX : u];
    const bend = back ? -60 : 50;
    const [left, right] = [y + TALL / 2, v + TALL / 2];
    const way = `M${begin} ${left}C${begin + bend} ${left} ${end - bend} ${right} ${end} ${right}`;
    picture.append(drawn("path", { d: way, "marker-end": "url(#head)" }));
    const label = { class: "label", x: (begin + end) / 2, y: (y + v + TALL) / 2 - 4, "text-anchor": "middle" };
    picture.append(drawn("text", label, because));
  }
  for (const place of places) {
    const [x, y] = at(place);
    const round = { port: 2, queue: 12, station: TALL / 2 }[place.kind];
    picture.append(drawn("rect", { x, y, width: BOX, height: TALL, rx: round, class: place.inCycle ? "cycle" : "" }));
    place.brief.forEach((line, at) => {
      picture.append(drawn("text", { x: x + BOX / 2, y: y + 17 + 15 * at, "text-anchor": "middle" }, line));
    });
  }
  return picture;
}

export function log(lines) {
  const box = byId("log");
  const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
  say(box, lines);
  if (atEnd) box.scrollTop = box.scrollHeight;
}

/** Shows the joined switches, and why one cannot be read. */
export function joined(switches, leave) {
  byId("joined").replaceChildren(
    ...switches.slice(1).map((it) => {
      const button = make("button", { type: "button" }, "Leave");
      button.addEventListener("click", () => leave(it));
      return make("li", {}, `${it.name} (${it.url}) `, button);
    }),
  );
}

const OF_PEERS = {
  "peer-late": "sends while paused (run xoff nic there if it is a Linux host without PFC in its NIC)",
  "peer-excess": "sends more after XOFF than the headroom assumes",
  "peer-too-fast": "sends faster than the port's speed",
};

export function trouble(switches) {
  const unread = switches.filter((it) => it.trouble).map((it) => it.trouble);
  const peers = switches.flatMap((it) => {
    const faults = (it.status?.ongoing ?? []).filter(({ event }) => event in OF_PEERS);
    const name = switches.length > 1 ? `${it.name} ` : "";
    return faults.map(({ event, port }) => `the peer of port ${name}${port} ${OF_PEERS[event]}`);
  });
  say(byId("trouble"), [...unread, ...new Set(peers)].join("; "));
}
