// The inbox of the account that is signed in: read, changed, and kept up to date.

import { eventsOf, pause } from './live.js'
import { Notifications } from './notifications.js'

const PAGE = 50
const UNREAD_PAGE = 100
const MOST_MARKED_AT_ONCE = 500
export const MOST_UNREAD = 1000

export class Inbox {
  notifications = new Notifications()
  subscriptions = []
  /** Subscriptions that ended here, so that they can be taken up again. */
  ended = new Map()
  #server
  #listener
  #lastEventId
  #live = null

  /**
   * `projectId` is the one project that is shown, or null for all. The listener's methods: `changed()`,
   * `arrived(notification)`, `interrupted()` and `connected()` about live events, and `refused()`, when the server
   * no longer takes the token.
   */
  constructor(server, projectId, listener) {
    this.#server = server
    this.projectId = projectId
    this.#listener = listener
  }

  subscriptionTo(projectId) {
    return this.subscriptions.find(({ project_id }) => project_id === projectId)
  }

  // -- Live

  /** Reads the server's events until `pause`. */
  resume() {
    if (this.#live) return
    this.#live = new AbortController()
    void this.#stayLive(this.#live.signal)
  }

  pause() {
    this.#live?.abort()
    this.#live = null
  }

  /** Opens the stream again after each end, from the event on that it has had last. */
  async #stayLive(signal) {
    for (let failures = 0; !signal.aborted; ) {
      let retryAfterSeconds = 0
      try {
        for await (const event of this.#connection(signal)) {
          failures = 0
          if (event?.event === 'notification') this.#arrived(JSON.parse(event.data))
        }
      } catch (error) {
        if (signal.aborted) return
        if (error.status === 401) return this.#listener.refused()
        retryAfterSeconds = error.retryAfterSeconds ?? 0
        this.#listener.interrupted()
      }
      failures += 1
      await pause(failures, retryAfterSeconds, signal)
    }
  }

  /** Yields the events of one connection. The rest is loaded after it is open, so that nothing is lost in between. */
  async *#connection(signal) {
    const stream = new AbortController()
    const end = () => stream.abort()
    signal.addEventListener('abort', end)
    try {
      const headers = this.#lastEventId && { 'Last-Event-ID': this.#lastEventId }
      const response = await this.#server.request('GET', 'stream', { headers, signal: stream.signal })
      await this.#refresh(signal)
      this.#listener.connected()
      yield* eventsOf(response, end)
    } finally {
      signal.removeEventListener('abort', end)
      end()
    }
  }

  async #refresh(signal) {
    const { notifications } = this
    const before = notifications.sorted
    const [overview, page, unread] = await Promise.all([
      this.#server.json('GET', 'subscriptions'),
      this.#page({ limit: PAGE }),
      this.#allUnread(),
    ])
    signal.throwIfAborted()
    if (notifications.isLoaded) notifications.add(page.notifications)
    else notifications.addPage(page)
    notifications.settle(before, unread, unread.length < MOST_UNREAD)
    this.#note(notifications.newestId)
    this.subscriptions = overview.subscriptions
    this.#listener.changed()
  }

  #arrived(notification) {
    this.#note(notification.id)
    if (this.projectId && notification.project_id !== this.projectId) return
    this.notifications.add([notification])
    this.#listener.changed()
    this.#listener.arrived(notification)
  }

  #note(id) {
    if (id && (!this.#lastEventId || BigInt(id) > BigInt(this.#lastEventId))) this.#lastEventId = id
  }

  // -- Reading

  async loadOlder() {
    this.notifications.addPage(await this.#page({ limit: PAGE, after: this.notifications.next }))
    this.#listener.changed()
  }

  /** It is read at once, and unread again if the server refuses. */
  async markRead(notification) {
    notification.read = true
    this.#listener.changed()
    try {
      await this.#mark([notification.id])
    } catch (error) {
      notification.read = false
      this.#listener.changed()
      throw error
    }
  }

  async markAllRead() {
    for (let count = MOST_UNREAD; count >= MOST_UNREAD; ) {
      const unread = await this.#allUnread()
      const ids = unread.map(({ id }) => id)
      while (ids.length) await this.#mark(ids.splice(0, MOST_MARKED_AT_ONCE))
      this.notifications.add(unread.map((notification) => ({ ...notification, read: true })))
      count = unread.length
    }
    this.#listener.changed()
  }

  #mark(ids) {
    return this.#server.json('POST', 'notifications/read', { body: { ids } })
  }

  /** Every unread notification; of many the newest. */
  async #allUnread() {
    const found = []
    for (let after; found.length < MOST_UNREAD; ) {
      const page = await this.#page({ unread: true, limit: UNREAD_PAGE, ...(after && { after }) })
      found.push(...page.notifications)
      after = page.next
      if (!after) break
    }
    return found
  }

  #page(query) {
    const all = this.projectId ? { project_id: this.projectId, ...query } : query
    return this.#server.json('GET', `notifications?${new URLSearchParams(all)}`)
  }

  // -- Subscribing

  /** Subscribes to these types; null: to all, and to later ones as well. */
  async subscribe(projectId, types) {
    await this.#server.json('PUT', pathOf(projectId), { body: types ? { notification_types: types } : {} })
    this.ended.delete(projectId)
    await this.#loadSubscriptions()
  }

  async unsubscribe(subscription) {
    await this.#server.json('DELETE', pathOf(subscription.project_id))
    this.ended.set(subscription.project_id, subscription)
    await this.#loadSubscriptions()
  }

  async #loadSubscriptions() {
    this.subscriptions = (await this.#server.json('GET', 'subscriptions')).subscriptions
    this.#listener.changed()
  }
}

const pathOf = (projectId) => `subscriptions/${encodeURIComponent(projectId)}`
