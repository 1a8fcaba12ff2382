// Uses a flame graph as a reader does, and writes what it sees as lines into the document; flame_svg.sh puts it into a copy of the
// picture, in two parts: the part above the mark goes before the script of the picture, the rest after it.
window.told = [];
window.faults = [];
window.addEventListener("error", event => window.faults.push(event.message));
console.error = (...said) => window.faults.push(said.join(" "));
window.titles = () => Array.from(document.querySelectorAll(".boxes title"), title => title.textContent.split("\n")[0]).sort();
window.loose = () => Array.from(document.querySelectorAll(".boxes text"), text =>
  text.getBBox().x + text.getBBox().width > Number(text.previousElementSibling.getAttribute("x")) + Number(text.previousElementSibling.getAttribute("width")) ? text.textContent : "").filter(Boolean);
window.drawn = {titles: window.titles(), loose: window.loose()};
// ---- mark ----
(async function () {
"use strict";
const tell = (key, value) => window.told.push(key + ": " + value);
const wait = () => new Promise(done => setTimeout(done, 30));
// For what another process does, whose time is not the virtual one of this page.
const until = async holds => { for (let i = 0; i < 2000 && !holds(); i++) await new Promise(done => setTimeout(done, 1)); };
const boxes = () => Array.from(document.querySelectorAll("g.boxes > g"));
const nameOf = g => g.getAttribute("aria-label").replace(/, [<0-9. ]*%$/, "");
const rectOf = g => g.querySelector("rect");
const number = (g, key) => Number(rectOf(g).getAttribute(key));
const box = name => boxes().find(g => nameOf(g) === name);
const widths = (...names) => names.map(name => box(name) ? name + " " + Math.round(number(box(name), "width")) : name + " -").join(", ");
const level = n => boxes().filter(g => g.getAttribute("aria-level") === String(n)).map(g => nameOf(g) + " " + Math.round(number(g, "width"))).join(", ");
const input = document.querySelector("#search"), output = document.querySelector("#matched");
const button = text => Array.from(document.querySelectorAll("button")).find(b => b.textContent === text);
const details = () => document.querySelector("#details b").textContent;
const click = async what => { what.dispatchEvent(new MouseEvent("click", {bubbles: true})); await wait(); };
const key = async (name, more) => {
  const to = document.activeElement && document.activeElement !== document.documentElement ? document.activeElement : window;
  to.dispatchEvent(new KeyboardEvent("keydown", Object.assign({key: name, bubbles: true, cancelable: true}, more)));
  await wait();
};
const type = async text => { input.focus(); input.value = text; input.dispatchEvent(new Event("input", {bubbles: true})); await wait(); };

async function use() {
  tell("paper", getComputedStyle(document.querySelector(".paper")).fill);
  tell("ink", getComputedStyle(box("main").querySelector("text")).fill);
  tell("drawn", boxes().map(nameOf).join(" "));
  tell("start", widths("all", "main", "a", "b", "c", "hidden"));
  tell("tab stops", boxes().filter(g => g.getAttribute("tabindex") === "0").length);
  await click(rectOf(box("a")));
  tell("zoomed", widths("all", "main", "a", "b", "c", "d") + " " + location.hash);
  tell("above", boxes().filter(g => g.classList.contains("above")).map(nameOf).join(" "));
  await click(rectOf(box("main")));
  tell("out", widths("main", "a", "d"));
  await key("Escape");
  tell("reset", widths("a") + " " + button("Reset zoom").disabled + " " + location.hash);
  let popped = false;
  addEventListener("popstate", () => { popped = true; }, {once: true});
  history.back();
  await until(() => popped);
  await wait();
  tell("back", widths("main") + " " + location.hash);
  await key("Escape");

  await type("hidden");
  tell("hidden", output.textContent);
  tell("inside", boxes().filter(g => g.classList.contains("holds")).map(nameOf).join(" "));
  await key("Enter");
  tell("shown", widths("e", "hidden") + ", " + details() + ", " + output.textContent + " " + location.hash);
  await type("^(a|b)$");
  tell("once", output.textContent);
  await key("Escape"); // out of the field
  await key("Escape"); // out of the zoom
  await type("^(a|b)$");
  tell("lit", boxes().filter(g => g.classList.contains("hit")).map(nameOf).join(" "));
  box("all").focus();
  const steps = [];
  for (const k of ["n", "n", "n", "n", "N"]) {
    await key(k);
    steps.push(output.textContent.split(" ")[0] + " " + details());
  }
  tell("steps", steps.join(", "));
  await key("Escape");
  await type("^r$");
  tell("recursion", output.textContent);
  await type("upper");
  tell("any case", output.textContent);
  await click(button("Match case"));
  tell("case", output.textContent);
  await click(button("Match case"));
  await type("(");
  tell("wrong", output.className + " " + input.getAttribute("aria-invalid") + " " + (output.textContent.length > 10) + " " + button("\u203a").disabled);
  await type("");
  tell("right", "'" + output.textContent + "' " + input.getAttribute("aria-invalid"));

  box("all").focus();
  await key("ArrowUp"); await key("ArrowUp");
  const walk = [details()];
  for (const k of ["ArrowRight", "ArrowLeft", "ArrowDown"]) { await key(k); walk.push(details()); }
  tell("arrows", walk.join(" "));
  await key("ArrowUp"); await key("Enter");
  tell("enter", widths("a") + ", focus " + nameOf(document.activeElement));
  await key("Escape");
  await key("/");
  tell("slash", document.activeElement.id);
  await key("Escape");
  tell("left", nameOf(document.activeElement));
  await key("f", {ctrlKey: true});
  tell("ctrl-f", document.activeElement.id);

  await click(button("Icicle"));
  tell("icicle", number(box("main"), "y") > number(box("all"), "y"));
  await click(button("Icicle"));
  tell("flame", number(box("main"), "y") < number(box("all"), "y"));
  await click(button("Callers"));
  tell("callers", level(2));
  tell("of a", level(3));
  tell("of d", level(4));
  await type("^main$");
  tell("everything", output.textContent);
  await click(button("Callers"));
  await type("");
  tell("calls", widths("a", "b"));
}

function look() {
  tell("restored", widths("a", "c") + ", '" + input.value + "', " + output.textContent + ", " + (number(box("main"), "y") > number(box("all"), "y")));
  tell("paper", getComputedStyle(document.querySelector(".paper")).fill);
  tell("ink", getComputedStyle(box("main").querySelector("text")).fill);
}

async function compare() {
  for (const g of boxes()) rectOf(g).dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
  const now = window.titles(), same = now.length === window.drawn.titles.length && now.every((title, i) => title === window.drawn.titles[i]);
  tell("titles", now.length + (same ? " the same" : " differ: " + JSON.stringify([window.drawn.titles, now])));
  tell("search", output.textContent);
  tell("pwned", window.pwned === undefined ? "no" : "yes");
}

try {
  await ({use, look, compare})[MODE]();
  const loose = window.drawn.loose.concat(window.loose());
  tell("text", loose.length === 0 ? "fits" : "does not fit: " + loose.join(" "));
} catch (e) {
  window.faults.push(e.stack);
}
tell("faults", window.faults.join("; ") || "none");
const result = document.createElementNS("http://www.w3.org/2000/svg", "desc");
result.textContent = "\nTOLD\n" + window.told.join("\n") + "\nEND\n";
document.documentElement.appendChild(result);
})();
