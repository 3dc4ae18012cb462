// Model of the page: rates between two answers of /status, the pauses of the last two minutes, and who pauses whom. It does not
// access the document.

export const SAMPLES = 120;
// Preamble, start of frame and gap, which each frame also takes on the line.
const LAYER1_BYTES = 20;

/** A switch: its latest answer, and the one before. */
export class Switch {
  constructor(url) {
    this.url = url;
    this.status = null;
    this.trouble = null;
    this.seconds = 0;
    this.before = null;
    this.pauses = new Map();
  }

  get name() {
    return this.status ? this.status.name : this.url;
  }

  /** Stores an answer. After a restart of the switch, earlier values are discarded. */
  take(status) {
    const again = this.status && status.uptime_nanos > this.status.uptime_nanos;
    this.before = again ? this.status : null;
    this.seconds = again ? (status.uptime_nanos - this.status.uptime_nanos) / 1e9 : 0;
    if (!again) this.pauses.clear();
    this.status = status;
    this.trouble = null;
    for (const port of status.ports) for (const of of port.classes) this.remember(port, of);
  }

  remember(port, of) {
    const before = this.classBefore(port.name, of.class);
    const share = (now, then) => (before && this.seconds > 0 ? Math.min(1, Math.max(0, (now - then) / 1e9 / this.seconds)) : 0);
    const sent = share(of.pause_sent.nanos, before?.pause_sent.nanos);
    const received = share(of.pause_received.nanos, before?.pause_received.nanos);
    const key = `${port.name} ${of.class}`;
    let past = this.pauses.get(key);
    if (!past) {
      if (!sent && !received) return;
      past = { port: port.name, class: of.class, sent: new Array(SAMPLES).fill(0), received: new Array(SAMPLES).fill(0) };
      this.pauses.set(key, past);
    }
    for (const [samples, now] of [[past.sent, sent], [past.received, received]]) {
      samples.shift();
      samples.push(now);
    }
    if (!past.sent.some(Boolean) && !past.received.some(Boolean)) this.pauses.delete(key);
  }

  classBefore(port, number) {
    return this.before?.ports.find((it) => it.name === port)?.classes[number];
  }

  /** Returns the share of the last second in which the port paused a class, and in which its peer did. */
  paused(port, number) {
    const past = this.pauses.get(`${port} ${number}`);
    return past ? { sent: past.sent.at(-1), received: past.received.at(-1) } : { sent: 0, received: 0 };
  }

  /** Returns the current values of a port's class. */
  ofClass(port, of) {
    const before = this.classBefore(port.name, of.class);
    const rate = (field) => (before && this.seconds > 0 ? (of[field] - before[field]) / this.seconds : 0);
    const line = (bytes, frames) => (8 * (bytes + LAYER1_BYTES * frames)) / port.speed_bits_per_second;
    return {
      inBits: 8 * rate("rx_bytes"),
      outBits: 8 * rate("tx_bytes"),
      line: Math.max(line(rate("rx_bytes"), rate("rx_frames")), line(rate("tx_bytes"), rate("tx_frames"))),
      ingress: of.ingress.bytes,
      xoff: of.ingress.xoff_bytes,
      room: of.ingress.xoff_bytes + of.ingress.headroom_bytes,
      headroomLeft: of.lossless ? of.ingress.headroom_free_recent_bytes : null,
      egress: of.egress.bytes,
      egressRoom: of.egress.limit_bytes,
      ...this.paused(port.name, of.class),
      drops: Object.entries(of.drops).filter(([, count]) => count > 0),
      lost: of.lossless ? of.lost : 0,
      used: of.rx_frames + of.tx_frames > 0,
    };
  }

  /** Returns the current values of several classes together. */
  ofPort(port, classes) {
    const all = classes.map((of) => this.ofClass(port, of));
    const sum = (field) => all.reduce((total, it) => total + it[field], 0);
    const most = (field) => all.reduce((top, it) => Math.max(top, it[field]), 0);
    const left = all.map((it) => it.headroomLeft).filter((it) => it !== null);
    const drops = new Map();
    for (const [reason, count] of all.flatMap((it) => it.drops)) drops.set(reason, (drops.get(reason) ?? 0) + count);
    const ways = (bytes, frames) => {
      const of = (it, field) => it[field] - (this.classBefore(port.name, it.class)?.[field] ?? it[field]);
      const total = classes.reduce((sum, it) => sum + of(it, bytes) + LAYER1_BYTES * of(it, frames), 0);
      return this.seconds > 0 ? (8 * total) / this.seconds / port.speed_bits_per_second : 0;
    };
    return {
      inBits: sum("inBits"),
      outBits: sum("outBits"),
      line: Math.max(ways("rx_bytes", "rx_frames"), ways("tx_bytes", "tx_frames")),
      ingress: sum("ingress"),
      egress: sum("egress"),
      headroomLeft: left.length ? Math.min(...left) : null,
      sent: most("sent"),
      received: most("received"),
      drops: [...drops],
      lost: sum("lost"),
    };
  }
}

/** Returns who pauses whom over all switches: places (ports, queues, stations), and steps from each place to its cause. */
export function causes(switches) {
  const places = new Map();
  const steps = [];
  const known = switches.map((it) => it.status).filter(Boolean);
  const place = (kind, text, brief) => {
    if (!places.has(text)) places.set(text, { kind, text, brief, column: 0, inCycle: false });
    return places.get(text);
  };
  const port = (status, it, number) =>
    place("port", `${status.name} pauses the peer of ${it.name}, class ${number}`, [
      `${status.name} ${it.name}`,
      `pauses its peer, class ${number}`,
    ]);
  const queue = (status, name, number) =>
    place("queue", `egress queue ${status.name} ${name}, class ${number}`, [`${status.name} ${name}`, `egress queue, class ${number}`]);
  const station = (mac, number) => place("station", `station ${mac}, class ${number}`, ["station", mac]);
  for (const status of known) {
    for (const at of status.ports) {
      for (const of of at.classes) {
        if (of.pause_sent.now) {
          const pausing = port(status, at, of.class);
          for (const culprit of of.culprits) {
            const because = `${bytes(culprit.bytes)} queued`;
            steps.push({ from: pausing, to: queue(status, culprit.port, culprit.class), because });
          }
        }
        if (at.pause_peer && (of.pause_received.now || of.flows?.paused > 0)) {
          const peer = known.flatMap((other) => other.ports.map((it) => [other, it])).find(([, it]) => it.mac === at.pause_peer);
          const pausing = peer ? port(peer[0], peer[1], of.class) : station(at.pause_peer, of.class);
          steps.push({ from: queue(status, at.name, of.class), to: pausing, because: "paused by" });
        }
      }
    }
  }
  arrange(places, steps);
  return { places: [...places.values()], steps };
}

// Puts each place one column behind the last place that waits for it. Places of a cycle (that reach themselves) alternate between columns.
function arrange(places, steps) {
  const onward = new Map([...places.values()].map((it) => [it, steps.filter((step) => step.from === it).map((step) => step.to)]));
  const reaches = (from, goal) => {
    const seen = new Set();
    const next = [...onward.get(from)];
    while (next.length) {
      const at = next.pop();
      if (at === goal) return true;
      if (!seen.has(at)) {
        seen.add(at);
        next.push(...onward.get(at));
      }
    }
    return false;
  };
  for (const place of places.values()) place.inCycle = reaches(place, place);
  for (let round = 0; round < places.size; round++) {
    for (const { from, to } of steps) {
      if (!(from.inCycle && to.inCycle) && to.column <= from.column) to.column = from.column + 1;
    }
  }
  let turn = 0;
  for (const place of places.values()) if (place.inCycle) place.column += turn++ % 2;
}

/** Formats a rate with a readable unit. */
export function bits(rate) {
  return scaled(rate, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
}

export function bytes(count) {
  return scaled(count, ["B", "kB", "MB", "GB", "TB"]);
}

function scaled(value, units) {
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)}\u00a0${units[unit]}`;
}

export function percent(share) {
  if (share === 0) return "0";
  return share < 0.01 ? "<\u00a01\u00a0%" : `${Math.round(100 * share)}\u00a0%`;
}

export function duration(nanos) {
  const seconds = Math.floor(nanos / 1e9);
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}
