// Elements of a document. Texts become text nodes, and no markup is ever read.

const NEVER_OPENED = new Set(['javascript:', 'data:', 'vbscript:', 'file:', 'blob:', 'about:'])

/** The URL of a notification, if a person may be offered to open it: the server has the same rule. */
export function openable(text) {
  try {
    const url = new URL(text)
    return NEVER_OPENED.has(url.protocol) ? null : url
  } catch {
    return null
  }
}

/** An element with properties, attributes (`aria-…`, `part` and the like), listeners and children. */
export function element(name, { on = {}, ...properties } = {}, ...children) {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(properties)) {
    if (key in made && !key.includes('-') && key !== 'part') made[key] = value
    else made.setAttribute(key, value)
  }
  for (const [event, listener] of Object.entries(on)) made.addEventListener(event, listener)
  made.append(...children.filter((child) => child !== null))
  return made
}

/** Makes these nodes the children, and moves none that is in its place: it may have the focus. */
export function arrange(parent, nodes) {
  let place = parent.firstChild
  for (const node of nodes) {
    if (node === place) place = place.nextSibling
    else parent.insertBefore(node, place)
  }
  while (place) {
    const following = place.nextSibling
    place.remove()
    place = following
  }
}
