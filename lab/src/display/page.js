// Replaces the content once a second; keeps the focused link and the scrolled tables.

const byId = (id) => document.getElementById(id);
const scrolled = () => [...document.querySelectorAll(".scroll")];

async function content() {
  const answer = await fetch("content", { signal: AbortSignal.timeout(5000), cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.text();
}

function show(html) {
  const lefts = scrolled().map((it) => it.scrollLeft);
  const focused = document.activeElement?.getAttribute("href");
  byId("content").innerHTML = html;
  scrolled().forEach((it, at) => (it.scrollLeft = lefts[at] ?? 0));
  if (focused) byId("content").querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
}

async function look() {
  if (!document.hidden) {
    try {
      show(await content());
      byId("trouble").textContent = "";
    } catch (error) {
      byId("trouble").textContent = `The network does not answer (${error.message}); it may have ended.`;
    }
  }
  setTimeout(look, 1000);
}

document.documentElement.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
look();
