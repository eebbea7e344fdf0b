// Times are UTC everywhere. This module says under the mouse what each is on the clock of whoever looks, and, where that
// was chosen at the foot of the page, beside it; axes of time then have that clock, and say so. The choice is kept in the
// browser. Without this module nothing is lost but that.

const KEY = "local-times";
const local = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "short" });
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const choice = document.getElementById("local-times");

function chosen() {
  try { return localStorage.getItem(KEY) === "on"; } catch { return false; }
}

function keep(on) {
  try { localStorage.setItem(KEY, on ? "on" : "off"); } catch { /* the choice then holds for this page */ }
}

function say(on) {
  choice.setAttribute("aria-pressed", String(on));
  for (const time of document.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) { continue; }
    const here = local.format(at);
    time.title = `${at.toISOString().slice(0, 16).replace("T", " ")} UTC, ${here} ${zone}`;
    if (on && time.textContent.endsWith("UTC")) {
      // the day is said where it is another one
      time.dataset.here = here.slice(0, 10) === at.toISOString().slice(0, 10) ? here.slice(11) : here;
    } else {
      delete time.dataset.here;
    }
  }
  say_of_pictures(on);
  document.dispatchEvent(new Event("clock"));
}

// Names below an axis, the clock beside them, and what shapes say under the mouse.
function say_of_pictures(on) {
  for (const name of document.querySelectorAll("[data-time]")) {
    name.dataset.utc ??= name.textContent;
    name.textContent = on ? local.format(new Date(name.dataset.time)).slice(11) : name.dataset.utc;
  }
  for (const clock of document.querySelectorAll(".clock:not(:empty)")) { clock.textContent = on ? "local" : "UTC"; }
  for (const title of document.querySelectorAll("[data-at] > title")) {
    title.parentNode.dataset.utc ??= title.textContent;
    title.textContent = `${title.parentNode.dataset.utc} (${local.format(new Date(title.parentNode.dataset.at))} ${zone})`;
  }
}

choice.hidden = false;
choice.addEventListener("click", () => {
  const on = choice.getAttribute("aria-pressed") !== "true";
  keep(on);
  say(on);
});
document.addEventListener("refreshed", () => say(choice.getAttribute("aria-pressed") === "true"));
say(chosen());
