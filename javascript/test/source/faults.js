// Faults that a test orders: the server's answers, its push services, its node and its disk fail by rule.

export class Faults {
  #request

  constructor(request) {
    this.#request = request
  }

  /** Replaces all rules, such as `{ where: 'request', route: 'call-status', status: 503, times: 2 }`. */
  async set(rules) {
    return (await this.#request('PUT', '/_test/faults', { body: rules })).faults
  }

  /** The rules, with how often each was used (`hits`). */
  async list() {
    return (await this.#request('GET', '/_test/faults')).faults
  }

  /** Removes all rules. */
  async clear() {
    await this.set([])
  }
}
