// What is wrong with a page as a person has it: what axe-core finds, texts over each other, words that are broken
// inside, scrolling sideways.

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { expect } from '@playwright/test'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Runs in the page; returns a sentence for each fault. */
function faultsOfLayout(exclude) {
  const MOST_FAULTS = 12
  const shown = (text, length = 40) => JSON.stringify(text.trim().slice(0, length))

  /** The part of a rectangle that its ancestors do not cut off; null if nothing of it is seen. */
  function seen(rect, element) {
    let { left, top, right, bottom } = rect
    for (let each = element; each && each !== document.documentElement; each = each.parentElement) {
      const style = getComputedStyle(each)
      if (style.display === 'none' || style.visibility === 'hidden' || style.opacity === '0') return null
      if (style.clipPath !== 'none') return null
      if (style.overflowX === 'visible' && style.overflowY === 'visible') continue
      const box = each.getBoundingClientRect()
      left = Math.max(left, box.left); top = Math.max(top, box.top)
      right = Math.min(right, box.right); bottom = Math.min(bottom, box.bottom)
    }
    return right - left > 1 && bottom - top > 1 ? { left, top, right, bottom } : null
  }

  function* textsIn(root) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_ALL)
    while (walker.nextNode()) {
      const node = walker.currentNode
      if (node.shadowRoot) yield* textsIn(node.shadowRoot)
      if (node.nodeType !== Node.TEXT_NODE || !node.data.trim()) continue
      const parent = node.parentElement
      if (!parent || parent.closest('script, style, option, noscript, svg, [hidden]')) continue
      if (exclude.length && parent.closest(exclude.join())) continue
      if (!parent.closest('summary') && parent.closest('details:not([open])')) continue
      yield node
    }
  }

  /** Whether the element floats over the other, on purpose. */
  const isFloating = (element, other) => {
    for (let each = element; each; each = each.parentElement) {
      if (each.contains(other)) return false
      if (['sticky', 'fixed', 'absolute'].includes(getComputedStyle(each).position)) return true
    }
    return false
  }

  const faults = []
  const range = document.createRange()
  const pieces = []
  for (const node of textsIn(document.body)) {
    const parent = node.parentElement
    range.selectNodeContents(node)
    for (const rect of range.getClientRects()) {
      const part = seen(rect, parent)
      if (part) pieces.push({ ...part, node, parent })
    }
    // A word of letters stands on one line. Parts of long ids, addresses and URLs may be broken.
    for (const { 0: token, index } of node.data.matchAll(/\S+/g)) {
      if (token.length > 20) continue
      for (const { 0: word, index: at } of token.matchAll(/[\p{L}\d]{2,}/gu)) {
        range.setStart(node, index + at)
        range.setEnd(node, index + at + word.length)
        const tops = [...range.getClientRects()].filter((rect) => seen(rect, parent)).map(({ top }) => Math.round(top / 4))
        if (new Set(tops).size > 1) faults.push(`the word ${shown(word)} is broken in ${shown(node.data)}`)
      }
    }
  }
  pieces.sort((one, other) => one.top - other.top)
  for (const [place, one] of pieces.entries()) {
    for (let next = place + 1; next < pieces.length && pieces[next].top < one.bottom - 2; next += 1) {
      const other = pieces[next]
      if (one.node === other.node) continue
      const width = Math.min(one.right, other.right) - Math.max(one.left, other.left)
      const height = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top)
      if (width <= 2 || height <= Math.min(one.bottom - one.top, other.bottom - other.top) / 3) continue
      if (isFloating(one.parent, other.parent) || isFloating(other.parent, one.parent)) continue
      faults.push(`${shown(one.node.data)} and ${shown(other.node.data)} are over each other`)
    }
  }
  const beyond = document.documentElement.scrollWidth - innerWidth
  if (beyond > 0) faults.push(`the page scrolls sideways by ${beyond} px`)
  return faults.slice(0, MOST_FAULTS)
}

export async function turnTo(page, [colorScheme, width]) {
  await page.emulateMedia({ colorScheme })
  await page.setViewportSize({ width, height: 800 })
}

/**
 * Fails with each fault of the page, in each look: light on a wide screen, dark on a telephone. The page is loaded once
 * for all of them. `exclude` are selectors of what others have made.
 */
export async function expectNoFault(page, name, { looks = [['light', 1280], ['dark', 390]], exclude = [] } = {}) {
  await page.evaluate(axe)
  for (const look of looks) {
    await turnTo(page, look)
    const found = await page.evaluate(async (exclude) => (await axe.run({ exclude }, { resultTypes: ['violations'] })).violations
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`), exclude)
    const faults = [...found, ...await page.evaluate(faultsOfLayout, exclude)]
    expect(faults, `${name}: ${look.join(', ')}`).toEqual([])
  }
}
