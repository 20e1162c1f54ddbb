// What of a page is hard to read: pale words, fields and buttons without a name, what sticks out.
// Contrast is that of WCAG 2.2: 4.5 to 1, 3 to 1 for large words.
() => {
  const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  const colour = (text) => {
    if (!colours.has(text)) {
      pixel.clearRect(0, 0, 1, 1);
      pixel.fillStyle = text;
      pixel.fillRect(0, 0, 1, 1);
      const [r, g, b, alpha] = pixel.getImageData(0, 0, 1, 1).data;
      colours.set(text, [r, g, b, alpha / 255]);
    }
    return colours.get(text);
  };
  const over = (top, below) => {
    const alpha = top[3] + below[3] * (1 - top[3]);
    if (!alpha) return [0, 0, 0, 0];
    return [0, 1, 2].map((n) => (top[n] * top[3] + below[n] * below[3] * (1 - top[3])) / alpha).concat(alpha);
  };
  const behind = (element) => {
    let found = [0, 0, 0, 0];
    for (let node = element; node && found[3] < 0.999; node = node.parentElement) {
      found = over(found, colour(getComputedStyle(node).backgroundColor));
    }
    return over(found, [255, 255, 255, 1]);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((n) => (n / 255 <= 0.03928 ? n / 255 / 12.92 : ((n / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const isShown = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  };

  const pale = new Set();
  const look = (element, text, style) => {
    const back = behind(element);
    const [r, g, b, alpha] = colour(element.closest("svg") ? style.fill : style.color);
    let opacity = alpha;
    for (let node = element; node; node = node.parentElement) opacity *= Number(getComputedStyle(node).opacity);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const found = contrast(over([r, g, b, opacity], back), back);
    if (found < (isLarge ? 3 : 4.5)) pale.add(`${found.toFixed(2)} ${element.tagName} ${text.slice(0, 40)}`);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement, text = texts.currentNode.textContent.trim();
    if (!text || element.closest("script, style, option, template, noscript, :disabled, [aria-hidden=true]")) continue;
    if (isShown(element)) look(element, text, getComputedStyle(element));
  }

  const nameless = [];
  const isNamed = (element) => element.getAttribute("aria-label") || element.title || [...(element.labels ?? [])].some((label) => label.textContent.trim());
  for (const field of document.querySelectorAll("input:not([type=hidden], .select2-search__field), select, textarea")) {
    if (!isNamed(field)) nameless.push(field.outerHTML.slice(0, 120));
    if (field.placeholder && isShown(field)) look(field, field.placeholder, getComputedStyle(field, "::placeholder"));
  }
  for (const way of document.querySelectorAll("a[href], button")) {
    const spoken = way.cloneNode(true);
    for (const icon of spoken.querySelectorAll("[aria-hidden=true]")) icon.remove();
    if (isShown(way) && !isNamed(way) && !spoken.textContent.trim() && !spoken.querySelector("[alt], [title]")) nameless.push(way.outerHTML.slice(0, 120));
  }
  for (const field of document.querySelectorAll("select + .select2-container :is([role=combobox], [role=searchbox])")) {
    const told = (field.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent.trim());
    if (!field.getAttribute("aria-label") && !told.some(Boolean)) nameless.push(field.outerHTML.slice(0, 120));
  }
  if (document.querySelector("#page") && !document.querySelector("main, [role=main]")) nameless.push("no main landmark");
  const wide = document.documentElement.scrollWidth > innerWidth ? document.documentElement.scrollWidth : 0;
  return { pale: [...pale], nameless, wide };
}
