// The server's clock, which a test moves.

import { secondsOf } from './durations.js'

export class Clock {
  #request

  constructor(request) {
    this.#request = request
  }

  /** Lets time pass; resolves once everything that became due has been processed. Seconds, or `{ days, hours, ... }`. */
  async advance(duration) {
    return this.#request('PUT', '/_test/clock', { body: { advance: secondsOf(duration) } })
  }

  /** Sets the time, a Date or RFC 3339 text; a `frozen` clock stops. */
  async set(time, { frozen = false } = {}) {
    const now = time instanceof Date ? time.toISOString() : time
    return this.#request('PUT', '/_test/clock', { body: { now, frozen } })
  }

  /** The server's time. */
  async now() {
    return new Date((await this.#request('GET', '/_test/clock')).now)
  }
}
