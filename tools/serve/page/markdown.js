// A simple form of markdown: code, lists, headings, quotations, bold. Everything is a text node of an element that is created
// here, so markup and images in a text remain text. Underscores mean nothing: __init__ is a name.

const FENCE = /^ {0,3}(```+|~~~+)([^`]*)$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const QUOTE = /^ {0,3}>[> ]?/;
const MAX_LEVEL = 6;

// The text as blocks {kind, lines, source}; source tells whether a block has changed.
function blocksOf(text) {
  const lines = text.split("\n"), blocks = [];
  const kindOf = line => HEADING.test(line) ? "heading" : ITEM.test(line) ? "list" : QUOTE.test(line) ? "quote" : "text";
  let at = 0;
  while (at < lines.length) {
    const fence = FENCE.exec(lines[at]);
    let end = at + 1;
    if (lines[at].trim() === "") { at++; continue; }
    if (fence) {
      const closes = line => line.trim().startsWith(fence[1]) && line.trim().replaceAll(fence[1][0], "") === "";
      while (end < lines.length && !closes(lines[end])) end++;
      const name = fence[2].trim().split(/\s/)[0], inside = lines.slice(at + 1, end);
      blocks.push({kind: "code", name, lines: inside, source: "code " + name + "\n" + inside.join("\n")});
      at = end + 1;
      continue;
    }
    const kind = kindOf(lines[at]);
    const goesOn = line => line.trim() !== "" && !FENCE.test(line) &&
      (kindOf(line) === kind || (kind === "list" && /^\s{2,}/.test(line)));
    if (kind !== "heading") while (end < lines.length && goesOn(lines[end])) end++;
    // Items may be apart by an empty line.
    while (kind === "list" && end + 1 < lines.length && lines[end].trim() === "" && ITEM.test(lines[end + 1])) {
      end += 2;
      while (end < lines.length && goesOn(lines[end])) end++;
    }
    blocks.push({kind, lines: lines.slice(at, end), source: kind + "\n" + lines.slice(at, end).join("\n")});
    at = end;
  }
  return blocks;
}

// The end of a code span that a run of n backticks opened, or -1.
function closingRun(text, n, from) {
  for (let at = text.indexOf("`", from); at >= 0; at = text.indexOf("`", at)) {
    let length = 1;
    while (text[at + length] === "`") length++;
    if (length === n) return at;
    at += length;
  }
  return -1;
}

// Appends a text with code spans and bold. A mark without its other half is text; it is not searched for again.
function putInline(parent, text) {
  const unclosed = new Set();
  let plain = 0, at = 0, noBold = false;
  const flush = end => { if (end > plain) parent.append(text.slice(plain, end)); };
  while (at < text.length) {
    if (text[at] === "`") {
      let n = 1;
      while (text[at + n] === "`") n++;
      const end = unclosed.has(n) ? -1 : closingRun(text, n, at + n);
      if (end < 0) {
        unclosed.add(n);
        at += n;
        continue;
      }
      flush(at);
      parent.append(el("code", {}, text.slice(at + n, end).replace(/^ (.*[^ ].*) $/s, "$1")));
      at = plain = end + n;
    } else if (text[at] === "*") {
      let n = 1;
      while (text[at + n] === "*") n++;
      const opens = n === 2 && !noBold && /\S/.test(text[at + 2] || " "), end = opens ? text.indexOf("**", at + 3) : -1;
      noBold = noBold || (opens && end < 0);
      if (end < 0 || /\s/.test(text[end - 1])) {
        at += n;
        continue;
      }
      flush(at);
      const bold = el("strong");
      putInline(bold, text.slice(at + 2, end));
      parent.append(bold);
      at = plain = end + 2;
    } else {
      at++;
    }
  }
  flush(text.length);
}

// Items below an item are indented by two or more.
function listOf(lines) {
  const root = {list: null, indent: -1, item: null}, stack = [root];
  let item = null;
  for (const line of lines) {
    const match = ITEM.exec(line);
    if (line.trim() === "") continue;
    if (!match) {
      item.append("\n");
      putInline(item, line.trim());
      continue;
    }
    const indent = match[1].length, ordered = /\d/.test(match[2]);
    while (stack.length > 1 && indent < stack[stack.length - 1].indent) stack.pop();
    let top = stack[stack.length - 1];
    if (top === root || (indent >= top.indent + 2 && stack.length <= MAX_LEVEL)) {
      const list = el(ordered ? "ol" : "ul", ordered && parseInt(match[2], 10) !== 1 ? {start: parseInt(match[2], 10)} : {});
      if (top !== root) top.list.lastElementChild.append(list);
      else if (root.list === null) root.list = list;
      top = {list, indent};
      stack.push(top);
    }
    item = el("li");
    putInline(item, match[3]);
    top.list.append(item);
  }
  return root.list;
}

function blockOf(block) {
  if (block.kind === "code") {
    const text = block.lines.join("\n"), copy = button("Copy", () => copyText(text, copy), {class: "link", "aria-label": "Copy this code"});
    return el("figure", {class: "code"}, el("figcaption", {}, el("span", {}, block.name || "code"), copy),
      el("pre", {tabindex: "0"}, el("code", {}, text)));
  }
  if (block.kind === "list") return listOf(block.lines);
  const name = block.kind === "heading" ? "h" + Math.min(6, HEADING.exec(block.lines[0])[1].length + 2) : block.kind === "quote" ? "blockquote" : "p";
  const element = el(name);
  putInline(element, block.kind === "heading" ? HEADING.exec(block.lines[0])[2] :
    block.lines.map(line => block.kind === "quote" ? line.replace(QUOTE, "") : line.trim()).join("\n"));
  return element;
}

// Shows a text; blocks that have not changed since the last call stay the same elements.
const shownSources = new WeakMap();
function putMarkdown(parent, text) {
  const before = shownSources.get(parent) || [], blocks = blocksOf(text);
  let same = 0;
  while (same < before.length && same < blocks.length && before[same] === blocks[same].source) same++;
  while (parent.children.length > same) parent.lastElementChild.remove();
  for (const block of blocks.slice(same)) parent.append(blockOf(block));
  shownSources.set(parent, blocks.map(block => block.source));
}
