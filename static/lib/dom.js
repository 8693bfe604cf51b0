// Elements without markup: text goes in as text, never as HTML, so nothing that a server or a candidate says can run. Sizes that
// depend on data are set through the style object of the node, which the content policy allows, never through an attribute.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'on') for (const [event, run] of Object.entries(value)) node.addEventListener(event, run);
    else if (name === 'dataset') Object.assign(node.dataset, value);
    else if (name === 'size') for (const [property, size] of Object.entries(value)) node.style.setProperty(property, size);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(4)) {
    if (child === undefined || child === null || child === false || child === '') continue;
    node.append(child.nodeType ? child : document.createTextNode(String(child)));
  }
  return node;
}

export const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
export const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

/** Replaces the children, keeping the focus on the element with the same data-key, and the scroll of data-scroll boxes. */
export function replace(parent, ...children) {
  const key = parent.contains(document.activeElement) ? document.activeElement.closest('[data-key]')?.dataset.key : null;
  const scrolls = new Map([...parent.querySelectorAll('[data-scroll]')].map((n) => [n.dataset.scroll, n.scrollTop]));
  const open = new Map([...parent.querySelectorAll('details[data-key]')].map((n) => [n.dataset.key, n.open]));
  parent.replaceChildren(...children.flat(4).filter((c) => c !== undefined && c !== null && c !== false && c !== ''));
  for (const node of parent.querySelectorAll('[data-scroll]')) node.scrollTop = scrolls.get(node.dataset.scroll) || 0;
  for (const node of parent.querySelectorAll('details[data-key]')) if (open.has(node.dataset.key)) node.open = open.get(node.dataset.key);
  if (key) [...parent.querySelectorAll('[data-key]')].find((n) => n.dataset.key === key)?.focus({ preventScroll: true });
}

/** A node whose children are made anew only when what they show has another signature. */
export function part(node, render) {
  let last;
  return {
    node,
    update(signature, ...args) {
      if (signature === last) return false;
      last = signature;
      replace(node, render(...args));
      return true;
    },
  };
}
