// What somebody sees of the page: an object of findings, each a list of sentences, empty where all is well.
() => {
  const LEAST_CONTRAST = 4.5, LEAST_FONT = 12, ROUNDING = 0.06;
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const name = (node) => `${node.tagName.toLowerCase()} ${JSON.stringify(node.textContent.trim().slice(0, 40))}`;
  const shown = (box) => box.width > 0 && box.height > 0;
  const extended = (box) => box.width > 0 || box.height > 0; // a line is, a dot that was never drawn is not

  // Colors as [red, green, blue, alpha], the first three in 0..255.
  const color = (text) => {
    const numbers = (text.match(/[\d.]+/g) || []).map(Number);
    return text.startsWith("rgb") ? [...numbers.slice(0, 3), numbers[3] ?? 1] : [0, 0, 0, 0];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const luminance = (rgb) => {
    const [red, green, blue] = rgb.slice(0, 3).map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const canvas = color(getComputedStyle(document.body).backgroundColor);

  // The paint under an element, from the page up: backgrounds of its ancestors, then shapes of its picture.
  const painted = (element, box) => {
    const layers = [];
    for (let node = element; node; node = node.parentElement) layers.unshift(color(getComputedStyle(node).backgroundColor));
    if (element.closest("svg")) layers.push(...shapesUnder(element, box));
    return layers.reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const shapesUnder = (text, box) => {
    const x = box.left + box.width / 2, y = box.top + box.height / 2;
    const stack = document.elementsFromPoint(x, y).filter((node) => node.ownerSVGElement && node.tagName !== "text");
    return stack.reverse().map((node) => {
      const style = getComputedStyle(node), fill = color(style.fill);
      return [...fill.slice(0, 3), fill[3] * Number(style.fillOpacity) * Number(style.opacity)];
    });
  };

  const found = { contrast: [], fonts: [], overflow: [], cut: [], overlaps: [], pictures: [], tables: [], structure: [] };
  const words = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, range = document.createRange();
    if (!text.textContent.trim()) continue;
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect(), element = text.parentElement;
    if (shown(box)) words.push({ element, box, drawn: element.closest("svg") !== null });
  }
  if (words.length < 20) found.structure.push(`only ${words.length} pieces of text are shown`);
  for (const { element, box, drawn } of words) {
    const style = getComputedStyle(element), ink = color(drawn ? style.fill : style.color);
    const paper = painted(element, box), ratio = contrast(over(ink, paper), paper);
    if (ratio < LEAST_CONTRAST) found.contrast.push(`${name(element)}: ${ratio.toFixed(2)}`);
    const matrix = drawn ? element.getScreenCTM() : { a: 1, b: 0 };
    const size = parseFloat(style.fontSize) * Math.hypot(matrix.a, matrix.b);
    if (size < LEAST_FONT - ROUNDING) found.fonts.push(`${name(element)}: ${size.toFixed(1)} px`);
  }

  // Nothing wider than the page; what is wider than its own box must scroll there, with the keyboard, too.
  if (document.documentElement.scrollWidth > innerWidth) found.overflow.push(`page: ${document.documentElement.scrollWidth} > ${innerWidth}`);
  for (const node of all("body *")) {
    if (node.closest("svg") || node.closest("head")) continue;
    const box = node.getBoundingClientRect(), scroller = node.parentElement.closest(".scroll");
    const scrolls = scroller && ["auto", "scroll"].includes(getComputedStyle(scroller).overflowX);
    if (!scrolls && (box.right > innerWidth + 1 || box.left < -1)) found.overflow.push(`${name(node)}: ${box.left} to ${box.right}`);
    if (node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX === "hidden") found.cut.push(name(node));
    if (node.matches(".scroll") && node.scrollWidth > node.clientWidth && node.tabIndex !== 0) found.overflow.push(`${name(node)}: no focus`);
  }

  // Pictures are drawn, told in words, and hold all of their own text without one piece over another.
  for (const image of all("img")) if (!image.naturalWidth || !image.alt) found.pictures.push(`img ${image.src}`);
  for (const svg of all("svg")) {
    const frame = svg.getBoundingClientRect(), shapes = all("path, use, rect", svg).filter((node) => extended(node.getBoundingClientRect()));
    const told = svg.closest('[role="img"]')?.getAttribute("aria-label") || "";
    if (!shown(frame) || shapes.length < 5) found.pictures.push(`${svg.closest("figure")?.id}: ${frame.width} x ${frame.height}, ${shapes.length} shapes`);
    if (told.length < 40 || !svg.closest("figure")?.querySelector("figcaption")) found.pictures.push(`${svg.closest("figure")?.id}: no words`);
    const texts = words.filter(({ element }) => svg.contains(element));
    for (const { element, box } of texts) {
      const inside = box.left >= frame.left - 1 && box.right <= frame.right + 1 && box.top >= frame.top - 2 && box.bottom <= frame.bottom + 2;
      if (!inside) found.cut.push(name(element));
    }
    texts.forEach((one, index) => texts.slice(index + 1).forEach((other) => {
      const wide = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
      const high = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
      if (wide > 1 && high > 0.3 * Math.min(one.box.height, other.box.height)) found.overlaps.push(`${name(one.element)} over ${name(other.element)}`);
    }));
  }

  // Tables have captions, and headers that say what they head; headings go down one level at a time.
  for (const table of all("table")) {
    if (!table.caption?.textContent.trim()) found.tables.push(`no caption: ${name(table)}`);
    for (const header of all("th", table)) if (!["row", "col"].includes(header.scope)) found.tables.push(`no scope: ${name(header)}`);
    for (const row of all("tbody tr", table)) if (!row.querySelector('th[scope="row"]')) found.tables.push(`no header: ${name(row)}`);
  }
  const levels = all("h1, h2, h3, h4, h5, h6").map((heading) => Number(heading.tagName[1]));
  levels.forEach((level, index) => { if (level > (levels[index - 1] ?? 0) + 1) found.structure.push(`heading ${index}: level ${level}`); });
  if (levels.filter((level) => level === 1).length !== 1) found.structure.push("not one h1");
  if (!document.title.trim()) found.structure.push("no title");
  if (!document.documentElement.lang) found.structure.push("no lang");
  if (all("main").length !== 1) found.structure.push("not one main");
  const ids = all("[id]").map((node) => node.id);
  if (new Set(ids).size !== ids.length) found.structure.push("an id twice");

  return { found, paper: luminance(canvas) };
}
