// Search over headings and words, and buttons that copy code. The pages are whole without this script.

const form = document.querySelector('[role=search]')
const field = form.querySelector('input')
const found = form.querySelector('.found')
const [said, list] = found.children
const MOST = 12
const AROUND = 60
const fold = (text) => text.toLowerCase()
let index

/** Every heading as `[path, page, heading, words]`, loaded once. */
const load = () => (index ??= fetch('/docs/search.json').then((answer) => answer.json()))

/** How well a row matches: each term must be somewhere, and counts most in a heading. */
function score([, page, heading, words], terms) {
  let sum = 0
  for (const term of terms) {
    const [title, text] = [fold(`${heading} ${page}`), fold(words)]
    if (!title.includes(term) && !text.includes(term)) return 0
    sum += (title.includes(term) ? 10 : 0) + (fold(heading).startsWith(term) ? 10 : 0) + (text.includes(term) ? 1 : 0)
  }
  return sum
}

function excerpt(words, terms) {
  const at = Math.max(0, Math.min(...terms.map((term) => fold(words).indexOf(term)).filter((place) => place >= 0), words.length))
  const from = at < words.length ? Math.max(0, at - AROUND) : 0
  return `${from ? '…' : ''}${words.slice(from, from + 3 * AROUND)}`
}

function resultOf([path, page, heading, words], terms) {
  const link = document.createElement('a')
  link.href = path
  link.textContent = heading === page ? page : `${page} › ${heading}`
  const text = document.createElement('small')
  text.textContent = excerpt(words, terms)
  link.append(text)
  const item = document.createElement('li')
  item.append(link)
  return item
}

async function search() {
  const asked = field.value
  const terms = fold(asked).split(/\s+/).filter(Boolean)
  found.hidden = !terms.length
  if (!terms.length) return
  let rows
  try {
    rows = await load()
  } catch {
    index = undefined
    said.textContent = 'The server does not answer. Search again once it is up.'
    return
  }
  if (asked !== field.value) return
  const matches = rows.map((row) => [score(row, terms), row]).filter(([sum]) => sum)
  matches.sort(([one], [other]) => other - one)
  said.textContent = matches.length ? `${matches.length} found` : `Nothing found for ${asked}`
  list.replaceChildren(...matches.slice(0, MOST).map(([, row]) => resultOf(row, terms)))
}

form.hidden = false
field.addEventListener('focus', () => load().catch(() => { index = undefined }), { once: true })
field.addEventListener('input', search)
form.addEventListener('submit', async (event) => {
  event.preventDefault()
  await search()
  list.querySelector('a')?.click()
})
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && !event.target.closest('input, textarea')) {
    event.preventDefault()
    field.focus()
  }
  if (event.key === 'Escape') found.hidden = true
})
document.addEventListener('click', (event) => {
  if (!form.contains(event.target) || event.target.closest('.found a')) found.hidden = true
})

/** The commands of a terminal's transcript, or all of the code. */
function codeOf(block) {
  if (!block.matches('.language-console')) return block.textContent
  const lines = block.textContent.split('\n').filter((line) => /^[$>] /.test(line))
  return lines.map((line) => line.slice(2)).join('\n')
}

for (const block of navigator.clipboard ? document.querySelectorAll('article pre > code') : []) {
  const frame = document.createElement('div')
  frame.className = 'code'
  const button = document.createElement('button')
  button.type = 'button'
  button.textContent = 'Copy'
  button.setAttribute('aria-label', 'Copy code')
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(codeOf(block))
    button.textContent = 'Copied'
  })
  block.parentElement.replaceWith(frame)
  block.parentElement.tabIndex = 0
  frame.append(block.parentElement, button)
}
