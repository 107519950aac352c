// The list of notifications.

import { arrange, element, openable } from './elements.js'
import { filled } from './texts.js'

const FULL = { dateStyle: 'full', timeStyle: 'long' }
/** Units of an age: their seconds, and up to which age they are used. Older ones have their date. */
const UNITS = [['second', 60, 60], ['minute', 60, 3600], ['hour', 3600, 86_400], ['day', 86_400, 7 * 86_400]]

export class ListView {
  #texts
  #language
  #read
  #rows = new Map()
  #opened = new Set()
  #onlyUnread = false
  /** What was read while only unread ones are shown stays in its place. */
  #kept = new Set()
  #inbox = null

  /** Actions: `markRead(notification)`, `loadOlder(button)`. */
  constructor(texts, language, { markRead, loadOlder }) {
    this.#texts = texts
    this.#language = language
    this.#read = markRead
    const button = (label, click) => element('button', { type: 'button', part: 'button', on: { click } }, label)
    this.all = button(texts.all, () => this.#filter(false))
    this.unread = button(texts.unread, () => this.#filter(true))
    this.filters = element('div', { className: 'filters', role: 'group', 'aria-label': texts.show }, this.all, this.unread)
    this.list = element('ul', { part: 'list', role: 'list' }) // Safari takes a list without bullets for none
    this.empty = element('p', { className: 'message', part: 'empty' })
    this.older = element('div', { className: 'bar' }, button(texts.older, ({ currentTarget }) => loadOlder(currentTarget)))
    this.nodes = [this.filters, this.list, this.empty, this.older]
  }

  /** Shows an inbox; null hides the list. */
  show(inbox) {
    this.#inbox = inbox
    for (const node of this.nodes) node.hidden = !inbox
    if (inbox) this.#showLoaded(inbox.notifications)
    else this.list.replaceChildren()
  }

  #showLoaded(notifications) {
    const texts = this.#texts
    const shown = notifications.isLoaded ? this.#shown(notifications) : []
    arrange(this.list, shown.map((notification) => this.#row(notification)))
    this.all.ariaPressed = String(!this.#onlyUnread)
    this.unread.ariaPressed = String(this.#onlyUnread)
    this.older.hidden = this.#onlyUnread || !notifications.next
    const none = this.#onlyUnread ? texts.noneUnread : texts.none
    this.empty.textContent = notifications.isLoaded ? none : texts.loading
    this.empty.hidden = shown.length > 0
  }

  #shown({ paged, sorted }) {
    return this.#onlyUnread ? sorted.filter(({ id, read }) => !read || this.#kept.has(id)) : paged
  }

  #filter(onlyUnread) {
    this.#onlyUnread = onlyUnread
    this.#kept.clear()
    this.show(this.#inbox)
  }

  /** Opens or closes a notification. Opening it is reading it. */
  #toggle(notification) {
    const { id } = notification
    if (!this.#opened.delete(id)) this.#opened.add(id)
    this.#kept.add(id)
    if (notification.read) this.show(this.#inbox)
    else this.#read(notification)
  }

  #row(notification) {
    const { id, read } = notification
    const row = this.#rows.get(id) ?? this.#newRow(notification)
    this.#rows.set(id, row)
    const isOpen = this.#opened.has(id)
    row.item.className = read ? '' : 'unread'
    row.item.setAttribute('part', read ? 'notification' : 'notification unread')
    row.mark.textContent = read ? '' : `${this.#texts.unread}: `
    row.button.ariaExpanded = String(isOpen)
    row.opened.hidden = !isOpen
    row.preview.hidden = isOpen
    row.time.textContent = this.#ageOf(notification.sent_at)
    row.facts.textContent = this.#factsOf(notification)
    return row.item
  }

  #newRow(notification) {
    const { id, title, body, url, sent_at: sentAt } = notification
    const mark = element('span', { className: 'unseen' })
    const facts = element('span')
    const opened = element('div', { className: 'opened', part: 'body', id: `opened-${id}` })
    opened.append(element('p', { dir: 'auto' }, body), ...this.#linksTo(url))
    const button = element(
      'button',
      { type: 'button', part: 'title', 'aria-controls': opened.id, on: { click: () => this.#toggle(notification) } },
      element('span', { className: 'dot', 'aria-hidden': 'true' }),
      element('span', {}, mark, element('bdi', { className: 'title' }, title))
    )
    const preview = element('p', { className: 'preview', part: 'preview', dir: 'auto' }, body.trimStart().split('\n', 1)[0])
    const time = element('time', { dateTime: sentAt, title: this.#formatted(Intl.DateTimeFormat, FULL, new Date(sentAt)) })
    const line = element('p', { className: 'facts', part: 'facts' }, facts, time)
    return { item: element('li', {}, element('h3', {}, button), preview, line, opened), mark, facts, time, button, preview, opened }
  }

  /** At most one link, which says where it leads. */
  #linksTo(text) {
    const url = text && openable(text)
    if (!url) return []
    const isWeb = /^https?:$/.test(url.protocol)
    const label = filled(this.#texts.open, { place: isWeb ? url.host : url.protocol })
    const target = isWeb ? { target: '_blank' } : {}
    return [element('a', { part: 'link', href: url.href, rel: 'noopener noreferrer', ...target }, label)]
  }

  #factsOf({ project_id: projectId, project_name: projectName, type }) {
    const types = this.#inbox.subscriptionTo(projectId)?.available_types
    const name = types?.find(({ id }) => id === type)?.name ?? type
    return [...(this.#inbox.projectId ? [] : [projectName]), name, ''].join(' · ')
  }

  /** Brings the times up to date: they say how long ago something was sent. */
  age() {
    if (this.#inbox) this.#showLoaded(this.#inbox.notifications)
  }

  #ageOf(sentAt) {
    const at = new Date(sentAt)
    const seconds = Math.round((at - Date.now()) / 1000)
    const [unit, length] = UNITS.find(([, , most]) => -seconds < most) ?? []
    if (!unit) return this.#formatted(Intl.DateTimeFormat, { dateStyle: 'medium' }, at)
    return this.#formatted(Intl.RelativeTimeFormat, { numeric: 'auto' }, Math.min(0, Math.trunc(seconds / length)), unit)
  }

  #formatted(Format, options, ...values) {
    try {
      return new Format(this.#language, options).format(...values)
    } catch {
      return new Format(undefined, options).format(...values) // `lang` is no language
    }
  }
}
