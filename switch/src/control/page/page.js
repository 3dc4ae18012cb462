// Requests the status of the switch and of the joined switches once a second; see model.js and view.js.

import { Switch } from "./model.js";
import * as view from "./view.js";

const EVERY_MS = 1000;
const WITHIN_MS = 5000;
const byId = (id) => document.getElementById(id);

const at = (url) => new URL(url, location.href).href.replace(/\/$/, "");
const own = at(".");

// The joined switches are in the page's address, so that a bookmark or link keeps them. Invalid URLs are ignored.
const others = () => new URLSearchParams(location.hash.slice(1)).getAll("join").filter((url) => URL.canParse(url, location.href)).map(at);
let switches = [new Switch(own)];
let frozen = false;

function choose() {
  const known = new Map(switches.map((it) => [it.url, it]));
  const urls = [own, ...others().filter((url) => url !== own)];
  switches = [...new Set(urls)].map((url) => known.get(url) ?? new Switch(url));
  view.joined(switches, (gone) => join(others().filter((url) => url !== gone.url)));
}

function join(urls) {
  location.hash = new URLSearchParams(urls.map((url) => ["join", url])).toString();
}

async function get(url) {
  const answer = await fetch(url, { signal: AbortSignal.timeout(WITHIN_MS), cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `${answer.status}`);
  return answer;
}

async function ask(it) {
  try {
    const named = it.status !== null;
    it.take(await (await get(`${it.url}/status?addresses=0`)).json());
    if (!named) choose();
  } catch (error) {
    const hint = it.url === own ? "" : `; it serves pages of other switches only if they have its address or a name in its http_hosts`;
    it.trouble = `${it.name} at ${it.url} does not answer (${error.message})${hint}`;
  }
}

async function look() {
  if (!frozen && !document.hidden) {
    const log = get(`${own}/log`).then((answer) => answer.text());
    await Promise.all(switches.map(ask));
    await log.then(view.log, () => {});
    draw();
  }
  setTimeout(look, EVERY_MS);
}

function draw() {
  view.header(switches[0]);
  view.trouble(switches);
  view.ports(switches, { which: byId("which").value, number: byId("class").value });
  view.pauses(switches);
  view.graph(switches);
}

function theme(dark) {
  document.documentElement.classList.toggle("dark", dark);
  byId("theme").setAttribute("aria-pressed", dark);
}

for (let number = 0; number < 8; number++) byId("class").append(new Option(number, number));
const preferred = matchMedia("(prefers-color-scheme: dark)");
theme(preferred.matches);
preferred.addEventListener("change", (it) => theme(it.matches));
byId("theme").addEventListener("click", () => {
  theme(!document.documentElement.classList.contains("dark"));
  draw();
});
byId("freeze").addEventListener("click", () => {
  frozen = !frozen;
  byId("freeze").setAttribute("aria-pressed", frozen);
});
for (const id of ["which", "class"]) byId(id).addEventListener("change", draw);
document.addEventListener("draw", draw);
byId("join").addEventListener("submit", (event) => {
  event.preventDefault();
  join([...others(), at(byId("url").value)]);
  byId("join").reset();
});
addEventListener("hashchange", choose);
choose();
look();
