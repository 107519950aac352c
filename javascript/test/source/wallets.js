// Wallets that are kept from test to test: a process is started once for the tests that use its options.

export class Wallets {
  #bridge
  #kept = new Map()

  constructor(bridge) {
    this.#bridge = bridge
  }

  /** The wallet with these options; it ends with the bridge. */
  async with(options) {
    const key = JSON.stringify(options)
    if (!this.#kept.has(key)) this.#kept.set(key, await this.#bridge.wallet(options))
    return this.#kept.get(key)
  }
}
