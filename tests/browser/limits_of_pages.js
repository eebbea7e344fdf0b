// What a page must keep to, as far as it can be measured; says what does not. Run inside the page.
(answer) => {
  const wrong = [];
  const say = (what, element, more = "") => wrong.push(`${what}: ${(element.innerText ?? element.textContent ?? "").trim().slice(0, 40) || element.outerHTML.slice(0, 80)} ${more}`);
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) { wrong.push(`moves sideways: ${document.documentElement.scrollWidth}`); }
  if (document.documentElement.scrollHeight > 6000) { wrong.push(`${document.documentElement.scrollHeight} px high`); }

  const first = document.querySelector(answer);
  if (!first) { wrong.push(`no answer ${answer}`); } else {
    const box = first.getBoundingClientRect();
    if (box.top + Math.min(box.height, 40) > innerHeight) { say("answer below the fold", first, `at ${box.top}`); }
  }

  const rgba = (text) => {
    const numbers = text.match(/[\d.]+(e-?\d+)?/g).map(Number);
    const [r, g, b, a = 1] = text.startsWith("color(") ? numbers : numbers;
    return text.startsWith("color(") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((one, at) => one * a + under[at] * (1 - a)).concat(1);
  const behind = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) {
      const colour = rgba(getComputedStyle(one).backgroundColor);
      if (colour[3] > 0) { layers.push(colour); }
      if (colour[3] === 1) { break; }
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255, 1]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((one) => { const part = one / 255; return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || seen.has(element) || element.closest("title, script, noscript, .skip, option, .plot.drawn .picture")) { continue; }
    seen.add(element);
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    const box = range.getBoundingClientRect();
    if (!box.width || !element.checkVisibility({ checkVisibilityCSS: true })) { continue; }
    const style = getComputedStyle(element);
    const picture = element.closest("svg");
    const scale = picture ? Math.abs(element.getScreenCTM().a ** 2 + element.getScreenCTM().b ** 2) ** 0.5 : 1;
    const size = parseFloat(style.fontSize) * scale;
    if (size < 11) { say("small text", element, `${size} px`); }
    const colour = rgba(picture ? style.fill : style.color);
    const ground = behind(picture ?? element);
    const [high, low] = [light(over(colour, ground)), light(ground)].sort((one, other) => other - one);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < (large ? 3 : 4.5)) { say("contrast", element, contrast.toFixed(2)); }
    if (picture && element.tagName === "text") {
      const drawn = element.getBoundingClientRect();
      const around = picture.getBoundingClientRect();
      if (drawn.left < around.left - 1 || drawn.right > around.right + 1 || drawn.top < around.top - 2 || drawn.bottom > around.bottom + 2) { say("label cut", element, `${drawn.left}-${drawn.right} in ${around.left}-${around.right}`); }
      if (element.textContent.endsWith("…")) { say("label cut", element); }
    } else if (!element.closest(".scroll") && (box.right > wide + 1 || box.left < -1)) { say("text beyond the page", element, `${box.left}-${box.right}`); }
    if (style.overflow !== "visible" && style.overflow !== "auto" && element.scrollWidth > element.clientWidth + 1) { say("text cut", element); }
  }

  for (const field of document.querySelectorAll("main :is(input:not([type=hidden]), select, button, textarea, .button)")) {
    const card = field.closest(".forms form, .card, form, main").getBoundingClientRect();
    const box = field.getBoundingClientRect();
    if (box.width && !field.closest(".scroll") && (box.left < card.left - 1 || box.right > card.right + 1)) { say("field outside its card", field, `${box.left}-${box.right} in ${card.left}-${card.right}`); }
  }
  return wrong;
}
