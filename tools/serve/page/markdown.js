// Markdown: headings, lists, quotations, tables, code, rules, and in a line code, bold, italics and the addresses of links.
// Everything is a text node of an element that is created here, so markup and images in a text remain text, and no address is
// loaded or followed. Marks between letters mean nothing: a*b*c is a product, __init__ a name.

const FENCE = /^ {0,3}(```+|~~~+)([^`]*)$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const QUOTE = /^ {0,3}>[> ]?/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const LINK = /\[([^[\]]{1,400})\]\((https?:\/\/[^\s()<>]{1,2000}|mailto:[^\s()<>]{1,200})(\s+"[^"]{0,200}")?\)/y;
const MARK = /[\\`*_[]/g;
const MAX_LEVEL = 6; // of lists and quotations
const MAX_COLUMNS = 100;

// ---- blocks ----

const isEmpty = line => line.trim() === "";
const isOrdered = line => /^\s*\d/.test(line);

// A line without blanks for a number of columns at most, of which a tab has four, and the number that they had.
function unindent(line, most) {
  let at = 0, columns = 0;
  for (; columns < most && (line[at] === " " || line[at] === "\t"); at++) columns += line[at] === "\t" ? 4 : 1;
  return {line: line.slice(at), columns};
}

const indentOf = line => unindent(line, Infinity).columns;

function closesFence(fence, line) {
  const marks = line.trim();
  return marks.startsWith(fence[1]) && marks.replaceAll(fence[1][0], "") === "";
}

function isTable(lines, at) {
  if (at + 1 >= lines.length || !lines[at].includes("|") || !/^[\s|:-]+$/.test(lines[at + 1])) return false;
  const sides = cellsOf(lines[at + 1]);
  return sides.length <= MAX_COLUMNS && sides.every(side => /^:?-+:?$/.test(side)) && sides.length === cellsOf(lines[at]).length;
}

function kindOf(lines, at) {
  const line = lines[at];
  return isEmpty(line) ? "" : FENCE.test(line) ? "code" : RULE.test(line) ? "rule" : HEADING.test(line) ? "heading" :
    QUOTE.test(line) ? "quote" : ITEM.test(line) ? "list" : isTable(lines, at) ? "table" : "text";
}

// An item has what is indented below it, also after an empty line, the rest of its paragraph, and code to the end of that.
function itemAt(lines, at) {
  const match = ITEM.exec(lines[at]), indent = indentOf(lines[at]), inside = [match[3]];
  const width = indent + lines[at].length - match[1].length - match[3].length;
  let end = at + 1, fence = FENCE.exec(match[3]), next = 0; // the next line that is not empty
  for (; end < lines.length; end++) {
    const line = lines[end], own = unindent(line, width).line;
    if (fence) {
      if (closesFence(fence, own)) fence = null;
    } else if (isEmpty(line)) {
      if (next <= end) for (next = end + 1; next < lines.length && isEmpty(lines[next]); next++);
      if (next === lines.length || indentOf(lines[next]) < indent + 2) break;
    } else if (indentOf(line) >= indent + 2) {
      fence = FENCE.exec(own.trimStart());
    } else if (isEmpty(lines[end - 1]) || kindOf(lines, end) !== "text") {
      break;
    }
    inside.push(own);
  }
  return {inside, end};
}

// The end of the block that begins at a line.
function endOf(kind, lines, at) {
  const fence = kind === "code" ? FENCE.exec(lines[at]) : null;
  let end = at + 1;
  if (fence) {
    while (end < lines.length && !closesFence(fence, lines[end])) end++;
    return Math.min(end + 1, lines.length);
  }
  if (kind === "rule" || kind === "heading") return end;
  if (kind === "table") {
    while (end < lines.length && lines[end].includes("|") && !FENCE.test(lines[end])) end++;
  } else if (kind === "list") {
    end = itemAt(lines, at).end;
    for (let next = end; next < lines.length; next++) {
      if (isEmpty(lines[next])) continue;
      if (kindOf(lines, next) !== "list" || isOrdered(lines[next]) !== isOrdered(lines[at])) break;
      end = itemAt(lines, next).end;
      next = end - 1;
    }
  } else {
    while (end < lines.length && kindOf(lines, end) === kind) end++;
  }
  return end;
}

// Lines as blocks {kind, lines, source}; source tells whether a block has changed.
function blocksOf(lines) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    const kind = kindOf(lines, at), end = kind ? endOf(kind, lines, at) : at + 1, inside = lines.slice(at, end);
    if (kind) blocks.push({kind, lines: inside, source: kind + "\n" + inside.join("\n")});
    at = end;
  }
  return blocks;
}

// ---- lines ----

const runAt = (text, at) => { let n = 1; while (text[at + n] === text[at]) n++; return n; };

// The end of a code span that a run of n backticks opened, or -1.
function closingRun(text, n, from) {
  for (let at = text.indexOf("`", from); at >= 0; at = text.indexOf("`", at)) {
    const length = runAt(text, at);
    if (length === n) return at;
    at += length;
  }
  return -1;
}

// The code span at a backtick: {n, end}, end is -1 without its other half, for which a run of this length is not looked again.
function codeAt(text, at, unclosed) {
  const n = runAt(text, at), end = unclosed.has(n) ? -1 : closingRun(text, n, at + n);
  if (end < 0) unclosed.add(n);
  return {n, end};
}

// The cells of a line of a table. A bar in code, or after a backslash, is text.
function cellsOf(line) {
  const text = line.trim().replace(/^\|/, ""), cells = [], unclosed = new Set();
  let cell = "";
  for (let at = 0; at < text.length;) {
    if (text[at] === "|") {
      cells.push(cell.trim());
      cell = "";
      at++;
    } else if (text[at] === "`") {
      const {n, end} = codeAt(text, at, unclosed), after = end < 0 ? at + n : end + n;
      cell += text.slice(at, after).replaceAll("\\|", "|");
      at = after;
    } else {
      const escaped = text[at] === "\\" && text[at + 1] === "|";
      cell += escaped ? "|" : text[at];
      at += escaped ? 2 : 1;
    }
  }
  if (cell.trim() !== "" || cells.length === 0) cells.push(cell.trim());
  return cells;
}

// Appends a text with code, bold, italics and addresses. A mark without its other half is text.
function putInline(parent, text) {
  const open = [], unclosed = new Set(); // marks that are open: {mark, at, inside}
  let plain = 0, at = 0;
  const place = () => open.length > 0 ? open[open.length - 1].inside : parent;
  const flush = (end, after) => { if (end > plain) place().append(text.slice(plain, end)); plain = after; };
  const undo = from => { while (open.length > from) { const {mark, inside} = open.pop(); place().append(mark, inside); } };
  const close = from => {
    undo(from + 1);
    const {mark, inside} = open.pop(), element = el(mark.length === 1 ? "em" : "strong");
    if (mark.length === 3) element.append(el("em", {}, inside));
    else element.append(inside);
    place().append(element);
  };
  const emphasis = () => {
    const n = runAt(text, at), mark = text.slice(at, at + n), before = text[at - 1] || " ", after = text[at + n] || " ";
    const ends = /\S/.test(before) && (/\w/.test(before) ? mark[0] === "*" || !/\w/.test(after) : !/\w/.test(after));
    const last = open.length - 1, same = open.findLastIndex(o => o.mark === mark), begins = n <= 3 && !/\w/.test(before) && /\S/.test(after);
    if (ends && same >= 0 && (mark !== "__" || /\s/.test(text.slice(open[same].at, at)))) {
      flush(at, at + n);
      close(same);
    } else if (ends && n === 3 && last > 0 && open[last].mark + open[last - 1].mark === mark) {
      flush(at, at + n);
      close(last);
      close(last - 1);
    } else if (begins) {
      flush(at, at + n);
      if (same >= 0) undo(same);
      open.push({mark, at, inside: document.createDocumentFragment()});
    }
    at += n;
  };
  for (MARK.lastIndex = at; MARK.test(text); MARK.lastIndex = at) {
    at = MARK.lastIndex - 1;
    LINK.lastIndex = at;
    const link = text[at] === "[" && text[at - 1] !== "!" ? LINK.exec(text) : null;
    if (text[at] === "`") {
      const {n, end} = codeAt(text, at, unclosed);
      if (end >= 0) {
        flush(at, end + n);
        place().append(el("code", {}, text.slice(at + n, end).replace(/^ (.*[^ ].*) $/s, "$1")));
      }
      at = end < 0 ? at + n : plain;
    } else if (text[at] === "*" || text[at] === "_") {
      emphasis();
    } else if (link) {
      flush(at, at + link[0].length);
      putInline(place(), link[1]);
      if (link[1] !== link[2]) place().append(el("span", {class: "address"}, " (" + link[2] + ")"));
      at = plain;
    } else {
      const escaped = text[at] === "\\" && /[*_`|#~]/.test(text[at + 1] || "");
      if (escaped) flush(at, at + 1);
      at += escaped ? 2 : 1;
    }
  }
  flush(text.length, text.length);
  undo(0);
}

// ---- elements ----

function codeBlock(name, text) {
  const copy = copyButton("Copy", () => text, {"aria-label": "Copy this code"});
  return el("figure", {class: "code"}, el("figcaption", {}, el("span", {}, name), copy), el("pre", {tabindex: "0"}, el("code", {}, text)));
}

function listOf(lines, level) {
  const number = parseInt(lines[0], 10), list = el(isOrdered(lines[0]) ? "ol" : "ul", number > 1 || number === 0 ? {start: number} : {});
  for (let at = 0; at < lines.length;) {
    if (isEmpty(lines[at])) { at++; continue; }
    const {inside, end} = itemAt(lines, at), item = el("li"), blocks = blocksOf(inside);
    if (blocks.length > 0 && blocks[0].kind === "text") putInline(item, blocks.shift().lines.map(line => line.trim()).join("\n"));
    putBlocks(item, blocks, level + 1);
    list.append(item);
    at = end;
  }
  return list;
}

// What a line has too much stays in its last cell.
function tableOf(lines) {
  const sides = cellsOf(lines[1]).map(side => side.endsWith(":") ? side.startsWith(":") ? "center" : "right" : undefined);
  const body = el("tbody"), row = (line, name) => {
    const cells = cellsOf(line), line_ = el("tr");
    if (cells.length > sides.length) cells.push(cells.splice(sides.length - 1).join(" | "));
    sides.forEach((side, i) => { const cell = el(name, {class: side}); putInline(cell, cells[i] || ""); line_.append(cell); });
    return line_;
  };
  for (const line of lines.slice(2)) body.append(row(line, "td"));
  return el("div", {class: "table", tabindex: "0", role: "region", "aria-label": "Table"}, el("table", {}, el("thead", {}, row(lines[0], "th")), body));
}

function blockOf({kind, lines}, level) {
  if (kind === "code") {
    const fence = FENCE.exec(lines[0]), closed = lines.length > 1 && closesFence(fence, lines[lines.length - 1]);
    return codeBlock(fence[2].trim().split(/\s/)[0] || "code", lines.slice(1, closed ? -1 : undefined).join("\n"));
  }
  if (kind === "rule") return el("hr");
  if (kind === "table") return tableOf(lines);
  if (kind === "list" && level < MAX_LEVEL) return listOf(lines, level);
  if (kind === "quote") {
    const quote = el("blockquote"), inside = lines.map(line => line.replace(QUOTE, ""));
    if (level < MAX_LEVEL) putBlocks(quote, blocksOf(inside), level + 1);
    else putInline(quote, inside.join("\n"));
    return quote;
  }
  const heading = HEADING.exec(lines[0]), element = el(heading ? "h" + Math.min(6, heading[1].length + 2) : "p");
  putInline(element, heading ? heading[2].trimEnd().replace(/\s#+$/, "") : lines.map(line => line.trim()).join("\n"));
  return element;
}

function putBlocks(parent, blocks, level) {
  for (const block of blocks) parent.append(blockOf(block, level));
}

// Shows a text; blocks that have not changed since the last call stay the same elements.
const shownSources = new WeakMap();
function putMarkdown(parent, text) {
  const before = shownSources.get(parent) || [], blocks = blocksOf(text.split("\n"));
  let same = 0;
  while (same < before.length && same < blocks.length && before[same] === blocks[same].source) same++;
  while (parent.children.length > same) parent.lastElementChild.remove();
  putBlocks(parent, blocks.slice(same), 0);
  shownSources.set(parent, blocks.map(block => block.source));
}
