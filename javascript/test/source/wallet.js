// A headless wallet: pairs by URI, answers by rules, and does what the test says.

import { setTimeout as sleep } from 'node:timers/promises'

import { installProvider } from './injected.js'
import { startProgram, temporaryFolder } from './program.js'
import { eventsOf, RefusedError, requester } from './requests.js'
import { rulesOf } from './rules.js'

const CALL_SECONDS = 5
const SCAN_SECONDS = 5
const SCAN_MILLISECONDS = 100

/**
 * Starts `bridge-server wallet`. Its options, all of which may be left out:
 *
 * `on` rules (`{ eth_sendTransaction: 'reject' }`); `session` and `policy` ('approve', 'reject', 'ask',
 * 'hang') for sessions and for calls that no rule names; `accounts` indexes of development accounts;
 * `chainId`; `rpc` a wallet's JSON-RPC that signs, with `rpcTokenFile`; `nodeUrl`; `mnemonicFile`;
 * `privateKeyFile`; `relayUrl` for URIs of generation 2.x, which name no relay.
 */
export async function startWallet(options = {}) {
  const program = await startProgram(
    ['wallet', '--listen', '127.0.0.1:0', ...flagsOf(options)],
    temporaryFolder()
  )
  return new Wallet(program)
}

function flagsOf({ on = {}, accounts, ...named }) {
  const flags = rulesOf(on).flatMap((rule) => ['--on', rule])
  if (accounts !== undefined) flags.push('--accounts', [accounts].flat().join(','))
  for (const [option, flag] of Object.entries(FLAGS)) {
    if (named[option] !== undefined) flags.push(flag, String(named[option]))
  }
  const unknown = Object.keys(named).filter((option) => !(option in FLAGS))
  if (unknown.length) throw new TypeError(`A wallet has no option ${unknown.join(', ')}`)
  return flags
}

const FLAGS = {
  session: '--session',
  policy: '--policy',
  chainId: '--chain-id',
  rpc: '--rpc',
  rpcTokenFile: '--rpc-token-file',
  nodeUrl: '--node-url',
  mnemonicFile: '--mnemonic-file',
  privateKeyFile: '--private-key-file',
  relayUrl: '--relay-url',
}

export class Wallet {
  #program
  #request
  #closing = new AbortController()

  constructor(program) {
    this.#program = program
    this.url = program.facts.url
    this.accounts = program.facts.accounts
    this.#request = requester(this.url, program.facts.token)
  }

  /** The last lines that the wallet wrote. */
  get log() {
    return this.#program.log
  }

  /**
   * Pairs with the dapp that shows this URI; resolves to the session. `generation` decides where a URI may be
   * of two, and `relayUrl` is the relay of one of generation 2.x, if it is not the server of this wallet.
   */
  async pair(uri, { relayUrl, generation } = {}) {
    const body = { uri, relay_url: relayUrl, generation }
    return this.#session((await this.#request('POST', '/pair', { body })).session)
  }

  /** Pairs with the dapp whose QR code is in this picture (PNG). The server needs its extra `scan`. */
  async pairByPicture(png) {
    return this.#session((await this.#request('POST', '/pair', { body: png, type: 'image/png' })).session)
  }

  /** Pairs with the dapp whose QR code is on a page of Playwright; waits for one to be there. */
  async scan(page, { timeout = SCAN_SECONDS } = {}) {
    const deadline = Date.now() + timeout * 1000
    for (;;) {
      try {
        return await this.pairByPicture(await page.screenshot({ type: 'png' }))
      } catch (error) {
        if (!isWithoutCode(error) || Date.now() > deadline) throw error
      }
      await sleep(SCAN_MILLISECONDS)
    }
  }

  /** Makes this wallet the page's `window.ethereum`, announced by EIP-6963. Before the page is opened. */
  async install(page, { name = 'Bridge Server test wallet' } = {}) {
    await installProvider(page, this, name)
  }

  /** A call of an injected provider (EIP-1193), answered by the rules: `{ result }` or `{ error }`. */
  async request({ method, params, origin, name }) {
    return this.#request('POST', '/request', { body: { method, params, origin, name } })
  }

  /** Replaces all rules. */
  async setRules(on) {
    return (await this.#request('PUT', '/rules', { body: rulesOf(on) })).rules
  }

  /** The wallet's sessions. */
  async sessions() {
    return (await this.#request('GET', '/sessions')).sessions.map((facts) => this.#session(facts))
  }

  /** The calls of all dapps, oldest first; `wait`, in seconds, for the first that matches. */
  async calls({ state, method, wait } = {}) {
    const { calls } = await this.#request('GET', '/calls', { query: { state, method, wait } })
    return calls.map((facts) => new Call(this.#request, facts))
  }

  /** The oldest call that waits for the test to answer it (rule or policy `ask`). */
  async nextCall(method, { timeout = CALL_SECONDS } = {}) {
    const [call] = await this.calls({ state: 'pending', method, wait: timeout })
    if (!call)
      throw new Error(
        `No call of ${method ?? 'any method'} waited within ${timeout} s\n${this.log}`.trimEnd()
      )
    return call
  }

  /** Resolves to an iterable of all that happens from then on, until `signal` or the end of the wallet. */
  async events({ signal } = {}) {
    const signals = [this.#closing.signal, signal].filter(Boolean)
    return eventsOf(`${this.url}/events`, this.#program.facts.token, AbortSignal.any(signals))
  }

  /** Ends all sessions and forgets all calls; the rules are those of the start. */
  async reset() {
    await this.#request('POST', '/reset')
  }

  /** Ends the wallet. */
  async stop() {
    this.#closing.abort()
    await this.#program.stop()
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.stop()
  }

  #session(facts) {
    return new Session(this.#request, facts)
  }
}

/** Whether this is the answer to a picture that has no QR code, so that a later picture may have one. */
function isWithoutCode(error) {
  return error instanceof RefusedError && error.status === 400 && !error.problem.errors?.length
}

export class Session {
  #request

  constructor(request, facts) {
    this.#request = request
    Object.assign(this, facts)
  }

  /** Approves a session that waits for the test to decide (`session: 'ask'`). */
  async approve() {
    await this.#change('POST', '/approve')
  }

  /** Rejects a session that waits for the test to decide. */
  async reject() {
    await this.#change('POST', '/reject')
  }

  /** Offers the dapp other accounts: indexes or addresses. */
  async switchAccount(...accounts) {
    await this.#change('PATCH', '', { accounts })
  }

  /** Changes the chain. */
  async switchChain(chainId) {
    await this.#change('PATCH', '', { chain_id: chainId })
  }

  /** Ends the session; the dapp hears of it. */
  async disconnect() {
    await this.#change('DELETE', '')
  }

  async #change(method, verb, body) {
    const path = `/sessions/${encodeURIComponent(this.id)}${verb}`
    Object.assign(this, (await this.#request(method, path, { body })).session)
  }
}

export class Call {
  #request

  constructor(request, facts) {
    this.#request = request
    Object.assign(this, facts)
  }

  /** Signs, or sends. */
  async approve() {
    await this.#answer('approve', {})
  }

  /** Refuses, by default as a user does: 4001. */
  async reject({ code, message } = {}) {
    await this.#answer('reject', { code, message })
  }

  /** Answers with this result, whatever it is. */
  async answer(result) {
    await this.#answer('answer', { result })
  }

  async #answer(verb, body) {
    const path = `/calls/${encodeURIComponent(this.id)}/${verb}`
    Object.assign(this, (await this.#request('POST', path, { body })).call)
  }
}
