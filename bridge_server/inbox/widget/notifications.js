// What an inbox holds.

const newerFirst = (one, other) => (BigInt(one.id) < BigInt(other.id) ? 1 : -1)

/** The notifications that are known, by id. What was read once stays read. */
export class Notifications {
  #byId = new Map()
  #oldestPaged = null
  next = null

  get isLoaded() {
    return this.#oldestPaged !== null
  }

  get newestId() {
    return this.sorted[0]?.id
  }

  get sorted() {
    return [...this.#byId.values()].sort(newerFirst)
  }

  get unread() {
    return this.sorted.filter(({ read }) => !read)
  }

  /** All that is on the pages that were loaded, and newer ones; an unread one may be older than those. */
  get paged() {
    return this.sorted.filter(({ id }) => BigInt(id) >= this.#oldestPaged)
  }

  add(notifications) {
    for (const notification of notifications) {
      const known = this.#byId.get(notification.id)
      if (known) known.read ||= notification.read
      else this.#byId.set(notification.id, notification)
    }
  }

  addPage({ notifications, next }) {
    this.add(notifications)
    this.next = next
    this.#oldestPaged = next ? BigInt(notifications.at(-1).id) : 0n
  }

  /** `unread` are the newest unread ones, perhaps not all: newer ones that were known `before` were read elsewhere. */
  settle(before, unread, isWhole) {
    const ids = new Set(unread.map(({ id }) => id))
    const oldest = isWhole ? 0n : BigInt(unread.at(-1).id)
    for (const notification of before) {
      if (BigInt(notification.id) >= oldest) notification.read ||= !ids.has(notification.id)
    }
    this.add(unread)
  }
}
