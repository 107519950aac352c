// A Bridge Server in test mode, and all that a test does with it.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

import { Clock } from './clock.js'
import { Faults } from './faults.js'
import { startProgram, temporaryFolder } from './program.js'
import { reached, requester } from './requests.js'
import { tomlOf } from './toml.js'
import { startWallet } from './wallet.js'

/**
 * Starts a new server in test mode on a free port of this machine, with an empty database.
 *
 * `settings` are the server's, by name (`session_ttl: 60`); `devAccounts` gives the wallet at `/rpc` the
 * published development accounts.
 */
export async function startBridge({ settings = {}, devAccounts = false } = {}) {
  const folder = temporaryFolder()
  const config = join(folder, 'settings.toml')
  await writeFile(config, tomlOf(settings), { mode: 0o600 })
  const where = ['--port', '0', '--data-dir', join(folder, 'data'), '--config', config]
  const accounts = devAccounts ? ['--dev-accounts'] : []
  const program = await startProgram(['serve', '--test', ...where, ...accounts], folder)
  return openBridge({ url: program.facts.url, testToken: program.facts.test_token, program })
}

/** A server in test mode that runs already, such as one that a global setup or a CI step has started. */
export async function connectBridge({
  url = process.env.BRIDGE_URL,
  testToken = process.env.BRIDGE_TEST_TOKEN,
} = {}) {
  if (!url || !testToken) {
    throw new Error('Name the server by url and testToken, or in BRIDGE_URL and BRIDGE_TEST_TOKEN')
  }
  return openBridge({ url, testToken })
}

async function openBridge(where) {
  const bridge = new Bridge(where)
  bridge.accounts = await accountsOf(bridge.rpcUrl)
  return bridge
}

export class Bridge {
  #program
  #request
  #wallets = new Set()

  constructor({ url, testToken, program }) {
    this.url = url.replace(/\/+$/, '')
    this.testToken = testToken
    this.#program = program
    this.#request = requester(this.url, testToken)
    this.clock = new Clock(this.#request)
    this.faults = new Faults(this.#request)
  }

  /** Addresses that the wallet at `rpcUrl` signs for. */
  accounts = []

  /** Where the clients of generation 0.7 connect: `bridgeUrl` of `walletconnect`. */
  get v07Url() {
    return `${this.url}/compat/v0.7`
  }

  /** Where the wallet's JSON-RPC answers. */
  get rpcUrl() {
    return `${this.url}/rpc`
  }

  /** Where the clients of generations 1.x and 2.x connect. */
  get socketUrl() {
    return this.url.replace(/^http/, 'ws')
  }

  /** The last lines of the server's log; empty for one that was started elsewhere. */
  get log() {
    return this.#program?.log ?? ''
  }

  /** Empties the server: tables, limits, faults, what was sent; the clock goes back to the true time. */
  async reset() {
    await this.#request('POST', '/_test/reset')
  }

  /**
   * Webhooks and pushes that went out, oldest first. With `wait`, in seconds, it waits for the first that
   * matches `channel`, `topic` and `account`.
   */
  async sent({ channel, topic, account, wait } = {}) {
    return (await this.#request('GET', '/_test/sent', { query: { channel, topic, account, wait } })).sent
  }

  /** Forgets what went out. */
  async forgetSent() {
    await this.#request('DELETE', '/_test/sent')
  }

  /** The requests that the server answered, oldest first; `after` a number of one, `wait` in seconds. */
  async traffic({ after, wait } = {}) {
    return (await this.#request('GET', '/_test/traffic', { query: { after, wait } })).requests
  }

  /** Starts a wallet that ends with the bridge; the options are those of `startWallet`. */
  async wallet(options = {}) {
    const wallet = await startWallet({ relayUrl: this.url, ...options })
    this.#wallets.add(wallet)
    return wallet
  }

  /** Ends the server, if this process started it, and its wallets. */
  async stop() {
    await Promise.all([...this.#wallets].map((wallet) => wallet.stop()))
    this.#wallets.clear()
    await this.#program?.stop()
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.stop()
  }
}

async function accountsOf(rpcUrl) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_accounts', params: [] })
  const headers = { 'Content-Type': 'application/json' }
  const answer = await reached(new URL(rpcUrl), { method: 'POST', headers, body })
  return answer.ok ? ((await answer.json()).result ?? []) : []
}
