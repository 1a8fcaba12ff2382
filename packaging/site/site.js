// The search, over search-index.js, which is loaded when somebody searches; and a button at each block of code that copies it.
"use strict";
{
  const root = document.documentElement.dataset.root, field = document.querySelector("#search"), results = document.querySelector("#results");
  const MOST = 20, AROUND = 60;
  let index = null;

  const element = (name, attributes, ...parts) => {
    const e = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    e.append(...parts);
    return e;
  };

  globalThis.addIndex = entries => {
    index = entries.map(([url, title, heading, text]) => ({url, title, heading, text, head: (heading || title).toLowerCase(), page: title.toLowerCase(), low: text.toLowerCase()}));
    show();
  };
  const load = () => {
    if (index) return;
    index = [];
    document.head.append(element("script", {src: root + "search-index.js"}));
  };

  // Each word must occur, one of them in this part; headings count most, then titles of pages, then the number of places in the text.
  const score = (entry, words) => {
    let sum = 0, here = false;
    for (const word of words) {
      const places = entry.low.split(word).length - 1;
      const one = (entry.head === word ? 40 : 0) + (entry.head.includes(word) ? 20 : 0) + (entry.page.includes(word) ? 8 : 0) + Math.min(places, 6);
      if (one === 0) return 0;
      here ||= places > 0 || entry.head.includes(word);
      sum += one;
    }
    return here ? sum : 0;
  };

  // Text with the words marked, around the first one.
  const excerpt = (entry, words) => {
    const at = Math.max(0, Math.min(...words.map(w => entry.low.indexOf(w)).filter(i => i >= 0).concat(entry.low.length)));
    const from = at < entry.low.length ? Math.max(0, entry.text.lastIndexOf(" ", Math.max(0, at - AROUND)) + 1) : 0;
    const text = (from ? "\u2026 " : "") + entry.text.slice(from, from + 3 * AROUND), low = text.toLowerCase(), parts = [];
    for (let i = 0; i < text.length;) {
      const [next, word] = words.map(w => [low.indexOf(w, i), w]).filter(([n]) => n >= 0).sort((a, b) => a[0] - b[0] || b[1].length - a[1].length)[0] || [text.length, ""];
      parts.push(text.slice(i, next), ...(word ? [element("mark", {}, text.slice(next, next + word.length))] : []));
      i = next + word.length;
    }
    return parts;
  };

  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    results.hidden = words.length === 0;
    if (words.length === 0) return;
    const found = index.map(entry => [score(entry, words), entry]).filter(([s]) => s > 0).sort((a, b) => b[0] - a[0]);
    const said = element("p", {role: "status"}, found.length === 0 ? "Nothing is found." : found.length > MOST ? `The best ${MOST} of ${found.length} places` : found.length === 1 ? "1 place" : `${found.length} places`);
    results.replaceChildren(said, element("ul", {}, ...found.slice(0, MOST).map(([, entry]) => element("li", {}, element("a", {href: root + entry.url},
      element("b", {}, entry.heading ? entry.title + " \u203a " + entry.heading : entry.title), element("span", {}, ...excerpt(entry, words)))))));
  };
  const close = () => { results.hidden = true; };
  const move = step => {
    const all = [field, ...results.querySelectorAll("a")];
    all[Math.min(all.length - 1, Math.max(0, all.indexOf(document.activeElement) + step))].focus();
  };

  field.addEventListener("focus", load);
  field.addEventListener("input", () => { load(); show(); });
  field.parentElement.addEventListener("keydown", event => {
    if (event.key === "Escape") { close(); field.focus(); } else if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); move(event.key === "ArrowDown" ? 1 : -1); }
    else if (event.key === "Enter" && event.target === field) results.querySelector("a")?.click();
  });
  results.addEventListener("click", event => { if (event.target.closest("a")) close(); });
  document.addEventListener("click", event => { if (!event.target.closest(".search")) close(); });
  document.addEventListener("keydown", event => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && event.target !== field) { event.preventDefault(); field.focus(); }
  });

  // Of a block with prompts only what is typed is copied.
  const typed = text => {
    if (!/^\$ /m.test(text)) return text;
    return (text.match(/^\$ (?:.*\\\n)*.*$/gm) || []).map(line => line.slice(2) + "\n").join("");
  };
  for (const block of document.querySelectorAll(".code")) {
    const button = element("button", {type: "button", class: "copy"}, "Copy");
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(typed(block.querySelector("pre").textContent));
      button.textContent = "Copied";
      button.classList.add("done");
      setTimeout(() => { button.textContent = "Copy"; button.classList.remove("done"); }, 1500);
    });
    block.append(button);
  }
}
